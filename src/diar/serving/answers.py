"""One answer per request, whatever happens to it; and the log of the models."""

from __future__ import annotations

import json
import logging

import triton_python_backend_utils as pb_utils

from diar.errors import Cancelled, DiarError, InternalError, InvalidOption, Overloaded

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


def request_parameters(request: pb_utils.InferenceRequest) -> dict[str, object]:
    """The parameters of a request. Raises InvalidOption (E_OPTION_TEXT) for what is no UTF-8."""
    try:
        parameters: dict[str, object] = json.loads(request.parameters())
    except ValueError:  # of which UnicodeDecodeError is one
        raise InvalidOption("E_OPTION_TEXT", "got parameters that are no UTF-8, expected UTF-8") from None
    return parameters


def request_id(request: pb_utils.InferenceRequest) -> str:
    """The id that the caller gave its request, "" if it gave none that is UTF-8."""
    try:
        return str(request.request_id())
    except UnicodeDecodeError:
        return ""


def check_wanted(request: pb_utils.InferenceRequest) -> None:
    """Raise Cancelled if nobody waits for the answer any more."""
    if request.is_cancelled():
        raise Cancelled("E_CANCELLED", "the caller cancelled, went away or its deadline passed")
