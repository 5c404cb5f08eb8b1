"""Finding an installed TensorRT, of either flavour, and hearing what it has to say."""

from __future__ import annotations

import importlib
import logging
from typing import Any, NamedTuple, cast

from diar.errors import SetupError
from diar.lanes.tensorrt_api import TensorRt
from diar.plans import Flavour

log = logging.getLogger(__name__)


class _Distribution(NamedTuple):
    """module: its name. series: how the versions begin that this code is written for. install: how."""

    module: str
    series: str
    install: str


_DISTRIBUTIONS: dict[Flavour, _Distribution] = {
    "tensorrt": _Distribution("tensorrt", "10.", "pip install tensorrt-cu12==10.5.0"),
    "tensorrt_rtx": _Distribution("tensorrt_rtx_bindings", "1.", "pip install 'diar-triton[engines]'"),
}


def load_module(flavour: Flavour) -> TensorRt:
    """Import a flavour of TensorRT.

    Raises SetupError: E_TENSORRT if it is not installed, lacks its libraries or is of another series.
    """
    name, series, install = _DISTRIBUTIONS[flavour]
    try:
        module = cast(TensorRt, importlib.import_module(name))
        version = module.__version__  # a folder of that name without Python code imports, but has none
    except (ImportError, AttributeError, OSError) as err:
        raise SetupError("E_TENSORRT", f"{flavour} cannot be imported ({err}); {install}") from err
    if not version.startswith(series):
        raise SetupError("E_TENSORRT", f"expected {flavour} {series}x, found {version}; {install}")
    return module


def installed_version(flavour: Flavour) -> str | None:
    """Version of a flavour, None if it cannot be used."""
    try:
        return load_module(flavour).__version__
    except SetupError as err:
        log.info("%s", err.text)
        return None


class Messages:
    """Hears TensorRT's warnings and errors: all go into the log, the last error also into our own messages.

    logger: what TensorRT wants.
    """

    def __init__(self, module: TensorRt) -> None:
        base: Any = module.ILogger
        severe = (base.INTERNAL_ERROR, base.ERROR)
        messages = self

        class Logger(base):  # type: ignore[misc]  # which base it has is known at run time only
            def log(self, severity: object, msg: str) -> None:
                if severity in severe:
                    messages.last_error = msg
                    log.error("%s", msg)
                elif severity == base.WARNING:
                    log.warning("%s", msg)

        self.last_error = "no reason was given"
        self.logger = Logger()


_messages: dict[str, Messages] = {}


def messages_of(module: TensorRt) -> Messages:
    """The Messages of a module: one for the whole process, since TensorRT keeps to its first logger."""
    return _messages.setdefault(module.__name__, Messages(module))
