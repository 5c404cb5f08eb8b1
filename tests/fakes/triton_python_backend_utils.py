"""The part of Triton's ``triton_python_backend_utils`` that the models use, for tests without a server.

Only what is used exists; every public name here exists on the real stub too (a test in tests/e2e says so).
What a test needs beyond that begins with an underscore: ``_callees`` maps a model's name to the function
that answers BLS requests to it, ``request._cancel()`` is a client that goes away, ``request._sequence`` makes
it a part of a sequence, ``sender._sent`` is what was sent, ``Logger._lines`` is the log.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import ClassVar

import numpy as np

_callees = {}
_DTYPES = (np.float32, np.int16, np.object_)
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class TritonError:
    INTERNAL = 1
    INVALID_ARG = 3
    UNAVAILABLE = 4
    CANCELLED = 8

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code


class Tensor:
    def __init__(self, name, array):
        if not isinstance(array, np.ndarray) or array.dtype not in _DTYPES:
            raise TypeError(f"{name}: got {array!r}, expected an array of {_DTYPES}")
        self._name, self._array = name, array.copy()

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array.copy()


class InferenceResponse:
    def __init__(self, output_tensors=(), error=None):
        self._output_tensors, self._error = list(output_tensors), error

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def output_tensors(self):
        return self._output_tensors


class InferenceRequest:
    def __init__(self, *, model_name, requested_output_names, inputs, parameters=None):
        self._model_name = model_name
        self._requested_output_names = set(requested_output_names)
        self._inputs = list(inputs)
        self._parameters = json.dumps(parameters or {})
        self._cancelled = False
        self._timeout = 0
        self._flags, self._correlation_id = 0, 0
        self._sender = _ResponseSender()

    def correlation_id(self):
        return self._correlation_id

    def flags(self):
        return self._flags

    def get_response_sender(self):
        return self._sender

    def request_id(self):
        return ""

    def timeout(self):
        return self._timeout

    def inputs(self):
        return self._inputs

    def requested_output_names(self):
        return self._requested_output_names

    def parameters(self):
        return self._parameters

    def is_cancelled(self):
        return self._cancelled

    def async_exec(self):
        """A future of the callee's response; as in Triton, the callee's error code does not survive."""
        return asyncio.ensure_future(self._exec())

    async def _exec(self):
        response = await _callees[self._model_name](self)
        if not response.has_error():
            return response
        return InferenceResponse(error=TritonError(f"{self._model_name} - {response.error().message()}"))

    def _cancel(self):
        self._cancelled = True

    def _sequence(self, correlation_id, start=False, end=False):
        self._correlation_id = correlation_id
        self._flags = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START * start
        self._flags |= TRITONSERVER_REQUEST_FLAG_SEQUENCE_END * end
        return self


class _ResponseSender:
    def __init__(self):
        self._sent, self._done = [], threading.Event()

    def send(self, response=None, flags=0):
        if self._done.is_set():
            raise RuntimeError("Unable to send response. Response sender has been closed.")
        if response is not None:
            self._sent.append(response)
        if flags:
            self._done.set()


def get_input_tensor_by_name(inference_request, name):
    return next((t for t in inference_request.inputs() if t.name() == name), None)


def get_output_tensor_by_name(inference_response, name):
    return next((t for t in inference_response.output_tensors() if t.name() == name), None)


class _Metric:
    def __init__(self, kind):
        self._kind, self._values = kind, []

    def increment(self, value):
        assert self._kind != MetricFamily.HISTOGRAM
        self._values.append(value)

    def set(self, value):
        assert self._kind == MetricFamily.GAUGE
        self._values = [value]

    def observe(self, value):
        assert self._kind == MetricFamily.HISTOGRAM
        self._values.append(value)

    def value(self):
        return sum(self._values)


class MetricFamily:
    COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
    _all: ClassVar = {}  # (name, labels) -> _Metric

    def __init__(self, *, name, description, kind):
        self._name, self._kind = name, kind

    def Metric(self, *, labels, buckets=None):  # noqa: N802 - Triton's name
        if (self._kind == self.HISTOGRAM) != (buckets is not None):
            raise TypeError(f"{self._name}: buckets are for a histogram, and for nothing else")
        return self._all.setdefault((self._name, tuple(sorted(labels.items()))), _Metric(self._kind))


class Logger:
    _lines: ClassVar = []

    @classmethod
    def log_info(cls, message):
        cls._lines.append(("info", message))

    @classmethod
    def log_warn(cls, message):
        cls._lines.append(("warn", message))

    @classmethod
    def log_error(cls, message):
        cls._lines.append(("error", message))
