"""A strict stand-in for the runtime half of TensorRT's Python module, on CPU memory.

Only what the lane calls is here, with TensorRT's manners: None or False instead of an exception, and a word
to the logger. A plan is what ``fake_plan`` writes: the ONNX file to run, the shapes it takes, and a fault to
commit. A context reads its input from the address it was given and writes its output to the other one, by
ONNX Runtime. It fills the output with NaN before it reads and the input with NaN after, so that nothing that
was not written for this very inference can pass for a result.
"""

from __future__ import annotations

import ctypes
import json
from enum import Enum
from types import SimpleNamespace

import numpy as np
import onnxruntime

__version__ = "10.5.0"
ALIGNMENT = 256


class TensorIOMode(Enum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class DataType(Enum):
    FLOAT = 0
    HALF = 1


class DynamicShapesKernelSpecializationStrategy(Enum):
    LAZY = 0
    EAGER = 1
    NONE = 2


class ILogger:
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)

    def log(self, severity, msg):
        raise NotImplementedError


def fake_plan(onnx, least, most, fault=""):
    """Bytes of a plan. fault: which call is to fail, or ``nan`` for an output that is not finite."""
    return json.dumps({"onnx": str(onnx), "least": least, "most": most, "fault": fault}).encode()


def session(onnx):
    """The ONNX Runtime session that a fake engine of this file uses."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(onnx), options)


_output_shapes = {}  # by ONNX file and input shape
freed = []  # "context", "engine", "runtime", in the order in which such objects went


class Runtime:
    def __init__(self, logger):
        if not isinstance(logger, ILogger):
            raise TypeError("expected an ILogger")
        self._logger = logger
        logger.log(ILogger.WARNING, "a fake runtime")

    def __del__(self):
        freed.append("runtime")

    def deserialize_cuda_engine(self, serialized_engine):
        try:
            content = json.loads(bytes(serialized_engine))
        except ValueError:
            self._logger.log(ILogger.ERROR, "magic tag does not match")
            return None
        return _Engine(content, self._logger)


class _Engine:
    num_io_tensors = 2

    def __init__(self, content, logger):
        self._content, self._logger = content, logger
        self._session = session(content["onnx"])
        self._names = [tensor.name for tensor in (*self._session.get_inputs(), *self._session.get_outputs())]

    def __del__(self):
        freed.append("engine")

    def get_tensor_name(self, index):
        return self._names[index]

    def get_tensor_mode(self, name):
        both_inputs = self._content["fault"] == "get_tensor_mode"
        return TensorIOMode.INPUT if both_inputs or name == self._names[0] else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name):
        return DataType.HALF if self._content["fault"] == "get_tensor_dtype" else DataType.FLOAT

    def create_runtime_config(self):
        strategy = DynamicShapesKernelSpecializationStrategy.LAZY
        return SimpleNamespace(dynamic_shapes_kernel_specialization_strategy=strategy)

    def create_execution_context(self, runtime_config=None):
        if self._content["fault"] == "create_execution_context":
            self._logger.log(ILogger.ERROR, "out of memory")
            return None
        return _Context(self._content, self._logger, self._session, self._names, runtime_config)


class _Context:
    def __init__(self, content, logger, session, names, config):
        self._content, self._logger, self._session = content, logger, session
        self._names, self.config = names, config
        self._addresses = {}
        self._shapes = {}

    def __del__(self):
        freed.append("context")

    def set_input_shape(self, name, shape):
        least, most = self._content["least"], self._content["most"]
        fits = len(shape) == len(most) and all(
            low <= size <= high for low, size, high in zip(least, shape, most, strict=True)
        )
        if name != self._names[0] or not fits or self._content["fault"] == "set_input_shape":
            self._logger.log(ILogger.ERROR, f"invalid shape {shape}")
            return False
        key = (self._content["onnx"], shape)
        if key not in _output_shapes:
            zeros = np.zeros(shape, np.float32)
            _output_shapes[key] = self._session.run(None, {name: zeros})[0].shape
        self._shapes = {name: shape, self._names[1]: _output_shapes[key]}
        return True

    def get_tensor_shape(self, name):
        return self._shapes.get(name, (-1,)) if self._content["fault"] != "get_tensor_shape" else (-1, 3)

    def set_tensor_address(self, name, memory):
        right = name in self._names and memory and memory % ALIGNMENT == 0
        if not right or self._content["fault"] == f"set_tensor_address({name})":
            self._logger.log(ILogger.ERROR, f"invalid address of {name}")
            return False
        self._addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle):
        if (
            not stream_handle
            or self._addresses.keys() != set(self._names)
            or not self._shapes
            or self._content["fault"] == "execute_async_v3"
        ):
            self._logger.log(ILogger.ERROR, "cannot enqueue")
            return False
        source, target = (self._memory(name) for name in self._names)
        target.fill(np.nan)
        target[...] = self._session.run(None, {self._names[0]: source.copy()})[0]
        source.fill(np.nan)
        if self._content["fault"] == "nan":
            target.flat[-1] = np.nan
        return True

    def _memory(self, name):
        shape = self._shapes[name]
        numbers = (ctypes.c_float * int(np.prod(shape))).from_address(self._addresses[name])
        return np.ctypeslib.as_array(numbers).reshape(shape)
