"""The OpenVINO lane: the exported ONNX files on a CPU, in FP32 or BF16."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import openvino
import torch
from torch import Tensor

from diar.errors import SetupError
from diar.lanes.lane import FULL_PRECISION

Precision = Literal["fp32", "bf16"]
WINDOWS_AT_ONCE = 16  # rows per infer request: how a batch is cut depends on its number of rows alone
_HINTS = {"fp32": openvino.Type.f32, "bf16": openvino.Type.bf16}


class OpenVinoLane:
    """Runs one ONNX file.

    threads: of this lane; 0 leaves the number to OpenVINO. SetupError (E_ONNX) if the file does not load.
    """

    def __init__(self, onnx: Path, precision: Precision, threads: int = 0) -> None:
        self.name = f"openvino:{precision}"
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
        }
        core = openvino.Core()
        try:
            model = core.read_model(str(onnx))
            parts = _split_at_full_precision(model) if precision == "bf16" else [model]
            hints = ["fp32", "bf16"] if len(parts) == 2 else [precision]
            compiled = [
                # the default of the precision depends on the processor
                core.compile_model(part, "CPU", {**options, "INFERENCE_PRECISION_HINT": _HINTS[hint]})
                for part, hint in zip(parts, hints, strict=True)
            ]
        except RuntimeError as err:
            raise SetupError("E_ONNX", f"OpenVINO cannot load {onnx}: {str(err).splitlines()[0]}") from err
        self._requests = [part.create_infer_request() for part in compiled]

    def run(self, inputs: Tensor) -> Tensor:
        """Run the network on (row, …) float32, at most WINDOWS_AT_ONCE rows per infer request."""
        outputs = []
        for rows in torch.split(inputs, WINDOWS_AT_ONCE):
            values = rows.contiguous().numpy()
            for request in self._requests:
                values = request.infer([values], share_inputs=True)[0]
            outputs.append(torch.from_numpy(values.copy()))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def close(self) -> None:
        """Drop the compiled model and its memory."""
        del self._requests


def _split_at_full_precision(model: openvino.Model) -> list[openvino.Model]:
    """The parts before and after the FULL_PRECISION tensor; the model alone if it has none."""
    named = [out for node in model.get_ops() for out in node.outputs() if FULL_PRECISION in out.names]
    if not named:
        return [model]
    end = named[0]
    front = openvino.Model([end], model.get_parameters())
    start = openvino.opset13.parameter(end.get_partial_shape(), end.get_element_type())
    for consumer in end.get_target_inputs():
        if consumer.get_node().get_type_name() != "Result":
            consumer.replace_source_output(start.output(0))
    return [front, openvino.Model(model.get_results(), [start])]
