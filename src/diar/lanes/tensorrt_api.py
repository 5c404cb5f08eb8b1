"""The part of TensorRT's Python interface that is used here, as types.

Both flavours have it: TensorRT 10 (module ``tensorrt``) and TensorRT for RTX (``tensorrt_rtx_bindings``).
Nearly all of these calls report failure by answering None or False instead of raising. These types say so,
which those on PyPI (tensorrt-stubs 10.8 to 10.13) do not; and those cannot be used: a keyword that stands as
the name of a parameter keeps them from being parsed. A test holds these types against the real module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Context(Protocol):
    """An execution context: one inference at a time, with the addresses and shapes set before it."""

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """False for a name or a shape that the plan does not take."""

    def get_tensor_shape(self, name: str) -> Sequence[int]:
        """The shape that follows from the input shapes, -1 where it does not yet."""

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """False for an unknown name or an address that is not aligned."""

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Queue one inference on a CUDA stream; False if that failed."""


class Engine(Protocol):
    """A deserialised plan."""

    num_io_tensors: int

    def get_tensor_name(self, index: int) -> str:
        """Name of an input or output."""

    def get_tensor_mode(self, name: str) -> object:
        """A TensorIOMode."""

    def get_tensor_dtype(self, name: str) -> object:
        """A DataType."""

    def create_runtime_config(self) -> Any:
        """Settings of a context; asked for of TensorRT for RTX only."""

    def create_execution_context(self, runtime_config: Any = ...) -> Context | None:
        """None if there is too little memory."""


class Runtime(Protocol):
    """Reads plans."""

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> Engine | None:
        """None for bytes that are no plan, or one of another build or GPU."""


class ParserError(Protocol):
    """What the parser did not like."""

    def code(self) -> Any:
        """An ErrorCode."""

    def desc(self) -> str:
        """In words."""

    def node_name(self) -> str:
        """Of the ONNX node."""

    def node_operator(self) -> str:
        """Its operator."""


class OnnxParser(Protocol):
    """Turns an ONNX file into a network."""

    num_errors: int

    def parse_from_file(self, model: str) -> bool:
        """False if there are errors."""

    def get_error(self, index: int) -> ParserError:
        """One of them."""


class Builder(Protocol):
    """Builds plans."""

    def create_network(self, flags: int) -> Any:
        """An empty network."""

    def create_builder_config(self) -> Any:
        """Settings."""

    def create_optimization_profile(self) -> Any:
        """A range of input shapes."""

    def build_serialized_network(self, network: Any, config: Any) -> Any:
        """The plan as a buffer; None if it cannot be built."""


class TensorRt(Protocol):
    """The module: ILogger and IProgressMonitor are base classes, the rest of Any are enumerations."""

    __name__: str
    __version__: str
    ILogger: Any
    IProgressMonitor: Any
    DataType: Any
    TensorIOMode: Any
    BuilderFlag: Any
    MemoryPoolType: Any
    NetworkDefinitionCreationFlag: Any
    DynamicShapesKernelSpecializationStrategy: Any  # TensorRT for RTX only
    ComputeCapability: Any  # likewise
    Runtime: Callable[[Any], Runtime]
    Builder: Callable[[Any], Builder]
    OnnxParser: Callable[[Any, Any], OnnxParser]
