"""Where the command writes its results."""

from __future__ import annotations

import sys
from pathlib import Path

from diar.errors import SetupError


class Output:
    """A file, or standard output for ``-``, that gets a piece of text for each recording.

    The file is replaced when the first piece is there, not before. separator: between the pieces.

    Raises SetupError if the file cannot be written, as far as that can be seen before there is a result.
    """

    def __init__(self, path: str, separator: bytes = b"") -> None:
        self._path = Path(path)
        self._separator = separator
        self._is_stdout = path == "-"
        self._started = False
        if not self._is_stdout and (self._path.is_dir() or not self._path.parent.is_dir()):
            raise SetupError("E_SETUP_OUTPUT", f"cannot write {path}: no such folder, or a folder itself")

    def write(self, piece: bytes) -> None:
        """Add the text of one recording, and let readers see it at once."""
        text = self._separator + piece if self._started else piece
        if self._is_stdout:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            try:
                with self._path.open("ab" if self._started else "wb") as file:
                    file.write(text)
            except OSError as err:
                raise SetupError("E_SETUP_OUTPUT", f"cannot write {self._path}: {err.strerror}") from None
        self._started = True
