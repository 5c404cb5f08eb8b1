"""Exit codes of the command, by class of error; ``arguments.EXAMPLES`` explains them."""

from __future__ import annotations

from diar.errors import Cancelled, DiarError, InvalidAudio, InvalidOption, NetsUnavailable, Overloaded
from diar_client.failures import ServerRefused, ServerUnreachable

OK = 0
OTHER = 1
USAGE = 2  # argparse's own
INTERRUPTED = 130  # 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE

_BY_CLASS: dict[type[DiarError], int] = {
    InvalidAudio: 3,
    InvalidOption: 4,
    ServerUnreachable: 5,
    ServerRefused: 6,
    Overloaded: 7,
    NetsUnavailable: 7,
    Cancelled: 8,
}


def exit_code(error: Exception) -> int:
    """The exit code for ``error``.

    >>> exit_code(Overloaded("E_OVERLOADED", "")), exit_code(OSError())
    (7, 1)
    """
    return next((code for kind, code in _BY_CLASS.items() if isinstance(error, kind)), OTHER)
