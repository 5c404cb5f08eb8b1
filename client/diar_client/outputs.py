"""Where the command writes its results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from diar.artifacts import replacing
from diar.errors import SetupError
from diar_client.finished import Finished
from diar_client.formats import Format
from diar_client.report.forms import Report

Kind = Format | Report


class Output(Protocol):
    """Somewhere to write results to. Raises SetupError if that cannot be done."""

    def write(self, finished: Finished) -> None:
        """Take one recording's result, in any order."""

    def skip(self, position: int) -> None:
        """There will be no result of the recording at ``position``."""

    def close(self) -> None:
        """No more will come."""


class Folder:
    """A file for each recording and format, below ``folder``. A file is there as a whole or not at all."""

    def __init__(self, folder: str, formats: Sequence[Kind], exclusive: bool) -> None:
        self._folder = Path(folder)
        self._formats = formats
        self._exclusive = exclusive
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise _cannot_write(self._folder, err) from None

    def write(self, finished: Finished) -> None:
        """See ``Output.write``."""
        for kind in self._formats:
            path = self._folder / finished.recording.output
            path = path.with_name(path.name + kind.suffix)
            try:
                with replacing(path) as draft:
                    draft.write_bytes(_content(kind, finished, self._exclusive, path))
            except OSError as err:
                raise _cannot_write(path, err) from None

    def skip(self, position: int) -> None:
        """See ``Output.skip``."""

    def close(self) -> None:
        """See ``Output.close``."""


class OneFile:
    """All recordings in one file, or on standard output for ``-``, in their order.

    The file is replaced when the first result is there, not before.
    """

    def __init__(self, path: str, kind: Kind, exclusive: bool) -> None:
        self._path = Path(path)
        self._is_stdout = path == "-"
        self._kind = kind
        self._exclusive = exclusive
        self._started = False
        self._next = 0
        self._waiting: dict[int, bytes | None] = {}
        if not self._is_stdout and (self._path.is_dir() or not self._path.parent.is_dir()):
            raise SetupError("E_SETUP_OUTPUT", f"cannot write {path}: no such folder, or a folder itself")

    def write(self, finished: Finished) -> None:
        """See ``Output.write``."""
        path = None if self._is_stdout else self._path
        self._waiting[finished.position] = _content(self._kind, finished, self._exclusive, path)
        self._write_ready()

    def skip(self, position: int) -> None:
        """See ``Output.skip``."""
        self._waiting[position] = None
        self._write_ready()

    def close(self) -> None:
        """See ``Output.close``; what others kept waiting is written now."""
        for position in sorted(self._waiting):
            self._write_one(self._waiting.pop(position))

    def _write_ready(self) -> None:
        while self._next in self._waiting:
            self._write_one(self._waiting.pop(self._next))
            self._next += 1

    def _write_one(self, piece: bytes | None) -> None:
        if piece is None:
            return
        text = (self._kind.separator or b"") + piece if self._started else piece
        if self._is_stdout:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            try:
                with self._path.open("ab" if self._started else "wb") as file:
                    file.write(text)
            except OSError as err:
                raise _cannot_write(self._path, err) from None
        self._started = True


def _content(kind: Kind, finished: Finished, exclusive: bool, path: Path | None) -> bytes:
    if isinstance(kind, Format):
        return kind.render(finished.result, exclusive)
    return kind.render(finished, exclusive, path)


def _cannot_write(path: Path, err: OSError) -> SetupError:
    return SetupError("E_SETUP_OUTPUT", f"cannot write {path}: {err.strerror or err}")
