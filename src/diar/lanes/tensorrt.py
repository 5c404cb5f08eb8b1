"""The TensorRT lane: a plan run on the stream of the block, with torch tensors as its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from diar.errors import InternalError, SetupError
from diar.lanes.lane import Lane
from diar.lanes.tensorrt_api import Context, Engine, TensorRt
from diar.lanes.tensorrt_module import installed_version, load_module, messages_of
from diar.plans import Flavour, Host, Plan, Precision, Shapes, find_plan

_ALIGNMENT = 256  # bytes, of every address that TensorRT is given
_T = TypeVar("_T")


class TensorRtLane(Lane):
    """Runs one plan, one inference at a time.

    plan: in ``folder``, checked already. device: the GPU it was made for. module: the TensorRT of the plan's
    flavour. stream: handle of the current CUDA stream; it must not be the default stream, on which TensorRT
    would synchronise the whole device.

    Input and output live in memory that is taken once, for the largest shape, and bound once; each shape
    uses its beginning. Raises SetupError (E_PLAN_LOAD) if TensorRT does not take the plan.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        device: torch.device,
        module: TensorRt,
        stream: Callable[[], int],
    ) -> None:
        self.name = f"{plan.flavour}:{plan.precision}"
        self._plan = plan
        self._stream = stream
        self._messages = messages_of(module)
        with _on(device):
            self._runtime = module.Runtime(self._messages.logger)
            serialised = (folder / plan.file).read_bytes()
            self._engine = self._loaded(
                self._runtime.deserialize_cuda_engine(serialised), "is no usable plan"
            )
            self._source, self._target = self._tensor_names(self._engine, module)
            context = _new_context(self._engine, plan.flavour, module)
            self._context = self._loaded(context, "gives no execution context")
            self._shape: tuple[int, ...] = ()
            self._input = _aligned(plan.shapes.most, device)
            self._output = _aligned(self._largest_output(), device)
            for name, memory in ((self._source, self._input), (self._target, self._output)):
                bound = self._context.set_tensor_address(name, memory.data_ptr())
                self._loaded(bound or None, f"does not take the address of {name}")
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # nothing that was queued elsewhere writes to this memory now

    def run(self, inputs: Tensor) -> Tensor:
        """Run the network on (row, …) float32, on the current stream.

        Raises InternalError (E_INTERNAL_LANE) for a shape outside the plan's, for the default stream, and if
        TensorRT refuses a call. That the outputs are finite is checked where they leave the GPU.
        """
        stream = self._stream()
        if not stream:
            raise InternalError("E_INTERNAL_LANE", f"{self._plan.file} is run on the default stream")
        shape = self._set_shape(tuple(inputs.shape))
        _start(self._input, inputs.shape).copy_(inputs)
        if not self._context.execute_async_v3(stream):
            raise self._refused("execute_async_v3")
        return _start(self._output, shape).clone()  # the next run writes to the same memory

    def close(self) -> None:
        """Free context, engine and runtime, in this order, and the memory of input and output."""
        del self._context
        del self._engine
        del self._runtime
        del self._input, self._output

    def _largest_output(self) -> tuple[int, ...]:
        try:
            return self._set_shape(self._plan.shapes.most)
        except InternalError as err:
            raise SetupError("E_PLAN_LOAD", err.text) from err

    def _set_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Tell TensorRT the shape of the input unless it knows it; returns the shape of the output."""
        if shape != self._shape:
            self._shape = ()
            if not self._context.set_input_shape(self._source, shape):
                takes = f"; the plan takes {self._plan.shapes}"
                raise self._refused(f"set_input_shape({self._source}, {list(shape)})", takes)
            self._shape = shape
        output = tuple(self._context.get_tensor_shape(self._target))
        if any(size < 0 for size in output):
            raise self._refused(f"the shape {list(output)} of {self._target} for {list(shape)}")
        return output

    def _tensor_names(self, engine: Engine, module: TensorRt) -> tuple[str, str]:
        """Names of the only input and the only output, both float32."""
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        is_input = [engine.get_tensor_mode(name) == module.TensorIOMode.INPUT for name in names]
        is_float = all(engine.get_tensor_dtype(name) == module.DataType.FLOAT for name in names)
        right = sorted(is_input) == [False, True] and is_float
        self._loaded(right or None, f"has tensors {names}, expected one input and one output, float32")
        return names[is_input.index(True)], names[is_input.index(False)]

    def _loaded(self, answer: _T | None, fault: str) -> _T:
        if answer is None:
            why = self._messages.last_error
            raise SetupError(
                "E_PLAN_LOAD", f"plan {self._plan.file} {fault}; {self._plan.flavour} says: {why}"
            )
        return answer

    def _refused(self, call: str, more: str = "") -> InternalError:
        why = f"{self._plan.flavour} says: {self._messages.last_error}"
        return InternalError("E_INTERNAL_LANE", f"{self._plan.file} refuses {call}{more}; {why}")


def open_plan(
    folder: Path,
    onnx: Path,
    shapes: Shapes,
    profile: str,
    precision: Precision | None,
    device: torch.device,
) -> TensorRtLane:
    """The lane of the plan that agrees with all that runs on ``device``; see ``find_plan`` for the rest."""
    plan = find_plan(folder, onnx, shapes, profile, precision, host_of(device), installed_version)
    return TensorRtLane(
        plan,
        folder,
        device,
        load_module(plan.flavour),
        lambda: torch.cuda.current_stream(device).cuda_stream,
    )


def host_of(device: torch.device) -> Host:
    """Model and compute capability of a CUDA device."""
    properties = torch.cuda.get_device_properties(device)
    return Host(properties.name, f"sm{properties.major}{properties.minor}")


def _on(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _new_context(engine: Engine, flavour: Flavour, module: TensorRt) -> Context | None:
    if flavour == "tensorrt":
        return engine.create_execution_context()
    # By default TensorRT for RTX compiles better kernels for each shape in the background and changes over to
    # them while serving: the same block would give other bytes a moment later.
    config = engine.create_runtime_config()
    strategy = module.DynamicShapesKernelSpecializationStrategy
    config.dynamic_shapes_kernel_specialization_strategy = strategy.NONE
    return engine.create_execution_context(config)


def _aligned(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Memory for ``shape``, as a vector of float32 that begins at a multiple of 256 bytes."""
    size = torch.Size(shape).numel() * torch.float32.itemsize
    memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=device)
    start = -memory.data_ptr() % _ALIGNMENT
    return memory[start : start + size].view(torch.float32)


def _start(memory: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The beginning of ``memory`` as a tensor of ``shape``."""
    return memory[: torch.Size(shape).numel()].view(shape)
