"""Errors that are reported by name: one tree, and the class decides the Triton code.

A message is ``E_WORD|text``: a stable word that a program can read, then what was got and what was
expected. The word travels inside the message because a callee's code is lost on its way through BLS.
"""

from __future__ import annotations

from typing import ClassVar


class DiarError(Exception):
    """Anything that is reported to the caller by name.

    word: the stable word, ``E_`` and upper case. text: what was got, what was expected; safe to show.

    >>> str(InvalidAudio("E_AUDIO_EMPTY", "got 0 samples, expected at least 1"))
    'E_AUDIO_EMPTY|got 0 samples, expected at least 1'
    """

    code: ClassVar[str] = "INTERNAL"  # the name of a pb_utils.TritonError constant

    def __init__(self, word: str, text: str) -> None:
        super().__init__(f"{word}|{text}")
        self.word = word
        self.text = text

    def __reduce__(self) -> tuple[type[DiarError], tuple[str, str]]:
        """Pickle and copy by word and text."""
        return type(self), (self.word, self.text)


class InvalidAudio(DiarError):
    """The caller's fault: empty, non-finite, wrong length or dtype, too long."""

    code = "INVALID_ARG"


class InvalidOption(DiarError):
    """The caller's fault: an unknown or contradicting request parameter."""

    code = "INVALID_ARG"


class StreamExpired(DiarError):
    """A live recording is not there: never started, ended, silent for too long, or lost with its server."""

    code = "INVALID_ARG"


class Overloaded(DiarError):
    """Too much work at once; the same request may succeed later."""

    code = "UNAVAILABLE"


class NetsUnavailable(DiarError):
    """No ``diar_nn_g<i>`` can take the block now; the same request may succeed later."""

    code = "UNAVAILABLE"


class Cancelled(DiarError):
    """The caller cancelled, went away or its deadline passed."""

    code = "CANCELLED"


class InternalError(DiarError):
    """Our fault; the details are in the server log only."""

    code = "INTERNAL"


class SetupError(DiarError):
    """Files, settings or the machine are not as needed; commands print it as one line and exit with 1."""


_BY_WORD: dict[str, type[DiarError]] = {
    "E_AUDIO": InvalidAudio,
    "E_SPAN": InvalidAudio,
    "E_OPTION": InvalidOption,
    "E_STREAM": StreamExpired,
    "E_OVERLOADED": Overloaded,
    "E_NETS": NetsUnavailable,
    "E_CANCELLED": Cancelled,
    "E_INTERNAL": InternalError,
}


def parse_error(message: str) -> DiarError | None:
    """Find ``E_WORD|text`` in a message from Triton and rebuild the error; None if there is none.

    >>> parse_error("diar_nn_g0 - E_SPAN_LENGTH|got 3 samples")
    InvalidAudio('E_SPAN_LENGTH|got 3 samples')
    >>> parse_error("Stub process 'x' is not healthy.") is None
    True
    """
    head, separator, text = message.partition("|")
    word = head.rsplit(maxsplit=1)[-1] if head.strip() else ""
    if not separator or not word.startswith("E_"):
        return None
    for prefix, kind in _BY_WORD.items():
        if word == prefix or word.startswith(prefix + "_"):
            return kind(word, text)
    return None
