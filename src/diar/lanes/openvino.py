"""The OpenVINO lane: the exported ONNX files on a CPU, in FP32 or BF16."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import openvino
import torch
from torch import Tensor

from diar.errors import SetupError

Precision = Literal["fp32", "bf16"]
WINDOWS_AT_ONCE = 16  # rows per infer request: how a batch is cut depends on its number of rows alone
_HINTS = {"fp32": openvino.Type.f32, "bf16": openvino.Type.bf16}


class OpenVinoLane:
    """Runs one ONNX file.

    threads: of this lane; 0 leaves the number to OpenVINO. SetupError (E_ONNX) if the file does not load.
    """

    def __init__(self, onnx: Path, precision: Precision, threads: int = 0) -> None:
        self.name = f"openvino:{precision}"
        if not onnx.is_file():
            raise SetupError("E_ONNX", f"no file {onnx}; scripts/export_onnx makes it")
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[precision],  # the default depends on the processor
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
        }
        try:
            self._model = openvino.Core().compile_model(str(onnx), "CPU", options)
        except RuntimeError as err:
            raise SetupError("E_ONNX", f"OpenVINO cannot load {onnx}: {str(err).splitlines()[0]}") from err
        self._request = self._model.create_infer_request()

    def run(self, inputs: Tensor) -> Tensor:
        """Run the network on (row, …) float32, at most WINDOWS_AT_ONCE rows per infer request."""
        outputs = []
        for part in torch.split(inputs, WINDOWS_AT_ONCE):
            results = self._request.infer([part.contiguous().numpy()], share_inputs=True)
            outputs.append(torch.from_numpy(results[0].copy()))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def close(self) -> None:
        """Drop the compiled model and its memory."""
        del self._request, self._model
