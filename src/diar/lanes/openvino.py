"""The OpenVINO lane: the exported ONNX files on a CPU, in FP32 or BF16."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import openvino
import torch
from torch import Tensor

from diar.errors import SetupError
from diar.lanes.lane import FULL_PRECISION, Lane

Precision = Literal["fp32", "bf16"]
Floats = npt.NDArray[np.float32]
WINDOWS_AT_ONCE = 4  # rows per infer request: how a batch is cut depends on its number of rows alone
FRAMES_AT_ONCE = 512  # of a front that runs in pieces: its inner tensors take 40 MB less than a span's
MOST_STREAMS = 4  # pieces of a full block that run beside each other; more threads share them
_HINTS = {"fp32": openvino.Type.f32, "bf16": openvino.Type.bf16}


class OpenVinoLane(Lane):
    """Runs one ONNX file.

    threads: of this lane; 0 for all cores. What is started runs beside other things in so many streams, each
    of one thread where there are enough of them: a recurrent network gains little from a second thread
    inside a request. one_at_a_time: no more is ever started before the outputs of the last are there; then
    it is one of these streams, since each keeps the memory of the largest inputs that it ever had. reach: of
    a network that begins with convolutions over images, (row, channels, bins, frames), how many frames to
    either side these look at in all. In FP32 they run over FRAMES_AT_ONCE frames at a time then, with the
    same bytes; BF16 takes half the memory, and there the bytes would differ. SetupError (E_ONNX) if the file
    does not load.
    """

    rows_at_once = WINDOWS_AT_ONCE

    def __init__(
        self,
        onnx: Path,
        precision: Precision,
        threads: int = 0,
        one_at_a_time: bool = False,
        reach: int | None = None,
    ) -> None:
        self.name = f"openvino:{precision}"
        self._reach: int | None = None
        threads = threads or len(os.sched_getaffinity(0))
        streams = min(threads, MOST_STREAMS)
        if one_at_a_time:
            threads, streams = threads // streams, 1
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,  # or all processes and lanes pin theirs to the same cores
        }
        core = openvino.Core()
        _use_bindings_once(core)
        try:
            model = core.read_model(str(onnx))
            if precision == "fp32" and reach is not None:
                parts = _split_behind_images(model)
                self._reach = reach if len(parts) == 2 else None
            else:
                parts = [model] if precision == "fp32" else _split_at_full_precision(model)
            hints = ["fp32", precision] if len(parts) == 2 else [precision]
            self._compiled = [
                # the default of the precision depends on the processor
                core.compile_model(part, "CPU", {**options, "INFERENCE_PRECISION_HINT": _HINTS[hint]})
                for part, hint in zip(parts, hints, strict=True)
            ]
        except RuntimeError as err:
            raise SetupError("E_ONNX", f"OpenVINO cannot load {onnx}: {str(err).splitlines()[0]}") from err
        self._pool = ThreadPoolExecutor(streams, thread_name_prefix=self.name)
        self._of_thread = threading.local()  # .requests: one for each part

    def run(self, inputs: Tensor) -> Tensor:
        """Run the network on (row, …) float32, at most WINDOWS_AT_ONCE rows per infer request."""
        return self.start(inputs)()

    def start(self, inputs: Tensor) -> Callable[[], Tensor]:
        """See ``Lane.start``; ``inputs`` must not change until the outputs are there."""
        pieces = [self._pool.submit(self._infer, rows) for rows in torch.split(inputs, WINDOWS_AT_ONCE)]

        def outputs() -> Tensor:
            found = [piece.result() for piece in pieces]
            return found[0] if len(found) == 1 else torch.cat(found)

        return outputs

    def close(self) -> None:
        """Drop the compiled model and its memory."""
        self._pool.shutdown()
        del self._pool, self._compiled, self._of_thread

    def _infer(self, rows: Tensor) -> Tensor:
        """Run one piece in a thread of the pool, which has infer requests of its own."""
        if not hasattr(self._of_thread, "requests"):
            self._of_thread.requests = [part.create_infer_request() for part in self._compiled]
        values = np.ascontiguousarray(rows.numpy())
        *fronts, last = self._of_thread.requests
        for front in fronts:
            in_pieces = _infer_by_row if self._reach is None else partial(_infer_by_frames, reach=self._reach)
            values = in_pieces(front, values)
        return torch.from_numpy(last.infer([values], share_inputs=True)[0].copy())


def _infer_by_row(request: openvino.InferRequest, values: Floats) -> Floats:
    """Run a network one row at a time; returns its outputs, a copy."""
    found = None
    for number, row in enumerate(values):
        outputs = request.infer([row[None]], share_inputs=True)[0]
        if found is None:
            found = np.empty((len(values), *outputs.shape[1:]), np.float32)
        found[number] = outputs[0]
    assert found is not None
    return found


def _infer_by_frames(request: openvino.InferRequest, values: Floats, reach: int) -> Floats:
    """Run a network of convolutions along the frames, FRAMES_AT_ONCE of them at a time.

    values: (row, frames, bins). reach: frames to either side that an output depends on. Returns (row,
    channels, bins, frames), a copy.
    """
    frames, found = values.shape[1], None
    for start in range(0, frames, FRAMES_AT_ONCE):
        end = min(start + FRAMES_AT_ONCE, frames)
        first = max(start - reach, 0)
        piece = np.ascontiguousarray(values[:, first : end + reach])
        outputs = request.infer([piece], share_inputs=True)[0]
        if found is None:
            found = np.empty((*outputs.shape[:-1], frames), np.float32)
        found[..., start:end] = outputs[..., start - first : end - first]
    assert found is not None
    return found


def _use_bindings_once(core: openvino.Core) -> None:
    """Infer something in this thread, before threads of ours do.

    What the Python bindings look up at their first use they look up under a lock of C++, and let go of the
    interpreter's lock meanwhile: two threads at once wait for each other for ever (seen with 2026.4.1).
    """
    source = openvino.opset13.parameter([1], openvino.Type.f32)
    model = openvino.Model([openvino.opset13.relu(source)], [source])
    request = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1}).create_infer_request()
    request.infer([np.zeros(1, np.float32)], share_inputs=True)[0].copy()


def _split_behind_images(model: openvino.Model) -> list[openvino.Model]:
    """The part up to the last tensor of four dimensions, and the rest; the model alone if it has none."""
    outputs = [out for node in model.get_ordered_ops() for out in node.outputs()]
    images = [out for out in outputs if out.get_partial_shape().rank == openvino.Dimension(4)]
    return _split(model, images[-1]) if images else [model]


def _split_at_full_precision(model: openvino.Model) -> list[openvino.Model]:
    """The parts before and after the FULL_PRECISION tensor; the model alone if it has none."""
    named = [out for node in model.get_ops() for out in node.outputs() if FULL_PRECISION in out.names]
    return _split(model, named[0]) if named else [model]


def _split(model: openvino.Model, end: openvino.Output) -> list[openvino.Model]:
    """The parts before and behind a tensor."""
    front = openvino.Model([end], model.get_parameters())
    start = openvino.opset13.parameter(end.get_partial_shape(), end.get_element_type())
    for consumer in end.get_target_inputs():
        if consumer.get_node().get_type_name() != "Result":
            consumer.replace_source_output(start.output(0))
    return [front, openvino.Model(model.get_results(), [start])]
