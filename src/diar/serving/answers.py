"""One answer per request, whatever happens to it; and the log of the models."""

from __future__ import annotations

import logging

import triton_python_backend_utils as pb_utils

from diar.errors import Cancelled, DiarError, InternalError, Overloaded

INTERNAL = InternalError("E_INTERNAL", "internal error; see the server log")
MEMORY = Overloaded("E_OVERLOADED_MEMORY", "no shared memory left; try again")
SHORT_OF_MEMORY = "Failed to increase the shared memory pool"  # how Triton says it
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
    if shown(error) is not error:
        log.error("request failed", exc_info=error)
    error = shown(error)
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(str(error), getattr(pb_utils.TritonError, error.code))
    )


def shown(error: Exception) -> DiarError:
    """What a caller may know of ``error``."""
    if SHORT_OF_MEMORY in str(error):
        return MEMORY
    return INTERNAL if not isinstance(error, DiarError) or error.code == DiarError.code else error


def check_wanted(request: pb_utils.InferenceRequest) -> None:
    """Raise Cancelled if nobody waits for the answer any more."""
    if request.is_cancelled():
        raise Cancelled("E_CANCELLED", "the caller cancelled, went away or its deadline passed")
