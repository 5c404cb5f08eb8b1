"""One answer per request, whatever happens to it; and the log of the models."""

from __future__ import annotations

import logging

import triton_python_backend_utils as pb_utils

from diar.errors import Cancelled, DiarError, InternalError

INTERNAL = InternalError("E_INTERNAL", "internal error; see the server log")
log = logging.getLogger("diar")


class TritonLogHandler(logging.Handler):
    """Sends log records to Triton's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record at the level that Triton knows."""
        text = self.format(record)
        if record.levelno >= logging.ERROR:
            pb_utils.Logger.log_error(text)
        elif record.levelno >= logging.WARNING:
            pb_utils.Logger.log_warn(text)
        else:
            pb_utils.Logger.log_info(text)


def start_logging(model: str) -> None:
    """Let the package's log lines appear in Triton's log, after the model's name. Once per process."""
    if not log.handlers:
        handler = TritonLogHandler()
        handler.setFormatter(logging.Formatter(f"{model}: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


def failed(error: Exception) -> pb_utils.InferenceResponse:
    """The answer to a request that raised ``error``.

    What the caller may know goes to the caller; everything else goes to the log, with its traceback.
    """
    if not isinstance(error, DiarError) or error.code == DiarError.code:
        log.error("request failed", exc_info=error)
        error = INTERNAL
    code = getattr(pb_utils.TritonError, error.code)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))


def check_wanted(request: pb_utils.InferenceRequest) -> None:
    """Raise Cancelled if nobody waits for the answer any more."""
    if request.is_cancelled():
        raise Cancelled("E_CANCELLED", "the caller cancelled, went away or its deadline passed")
