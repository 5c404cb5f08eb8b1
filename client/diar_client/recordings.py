"""What a caller gives: a recording and wishes about it, checked and made into what goes to a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy.typing as npt

from diar.errors import InvalidOption
from diar.spans import Samples
from diar_client.decode import as_samples, decode_file

Audio = str | os.PathLike[str] | npt.ArrayLike  # path of a file, or (samples,) 16 kHz mono


def load(audio: Audio, channel: int | None, note: Callable[[str], None]) -> Samples:
    """The samples of a file or an array. channel: of the file. note: called with what a user should know."""
    if isinstance(audio, (str, os.PathLike)):
        decoded = decode_file(audio, channel=channel)
        for text in decoded.notes:
            note(f"{os.fspath(audio)}: {text}")
        return decoded.samples
    if channel is not None:
        raise InvalidOption("E_OPTION_CHANNEL", "channel: got one for an array, expected one for files only")
    return as_samples(audio)


def name_of(audio: Audio) -> str:
    """What to call a recording whose caller has not named it."""
    return recording_name(audio) if isinstance(audio, (str, os.PathLike)) else "recording"


def recording_name(path: str | os.PathLike[str]) -> str:
    """The file's name without extension; bytes that are no UTF-8 become ``?``.

    >>> recording_name("calls/monday.v2.wav")
    'monday.v2'
    """
    return Path(path).stem.encode(errors="replace").decode()
