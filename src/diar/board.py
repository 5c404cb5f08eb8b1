"""The board: small files by which the supervisor and the models tell each other what only one of them knows.

It is the folder that tritonserver is started in, so every model finds it as its current folder, without a
setting, and a server without a supervisor has none. Names on it:

``settings.json``    made by the supervisor; a folder without it is no board
``draining``         there once no new recordings are to be taken
``trouble/<model>``  there while nothing may be sent to the model; put up by a caller, taken down when healed
``busy/<model>.<pid>``  there while a stub is at work; touched whenever it gets on
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

BROKEN = "broken: "  # how a trouble begins that will not be over soon


@dataclass(frozen=True)
class Board:
    """One board. log_json: whether the models log recordings as JSON. keeper: the supervisor's process."""

    folder: Path
    log_json: bool = False
    keeper: int = field(default_factory=os.getpid)

    @classmethod
    def create(cls, folder: Path, *, log_json: bool) -> Board:
        """Make one in an empty or new ``folder``."""
        for name in ("trouble", "busy"):
            (folder / name).mkdir(parents=True)
        settings = {"log_json": log_json, "keeper": os.getpid()}
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        return cls(folder, log_json)

    @classmethod
    def find(cls, folder: Path | None = None) -> Board | None:
        """The board in the current folder; None where there is no supervisor."""
        folder = folder or Path.cwd()
        try:
            settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
            board = cls(folder, bool(settings["log_json"]), int(settings["keeper"]))
            return board if (folder / "trouble").is_dir() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def is_kept(self) -> bool:
        """Whether the supervisor is alive, which alone brings a model back."""
        try:
            stat = Path(f"/proc/{self.keeper}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"  # proc(5): dead, but not yet waited for

    @property
    def draining(self) -> bool:
        """Whether no new recordings are to be taken."""
        return (self.folder / "draining").exists()

    def drain(self) -> None:
        """Take no new recordings from now on."""
        (self.folder / "draining").touch()

    def report(self, model: str, reason: str) -> None:
        """Let nothing more be sent to ``model``; what is known already stays as it is."""
        with suppress(FileExistsError, FileNotFoundError), self._trouble(model).open("x") as file:
            file.write(reason)

    def give_up(self, model: str, reason: str) -> None:
        """Say that ``model`` will not be back soon: nobody need wait for it."""
        new = self.folder / "trouble" / f".{model}"
        new.write_text(BROKEN + reason, encoding="utf-8")
        new.replace(self._trouble(model))

    def settle(self, model: str) -> None:
        """``model`` serves again."""
        self._trouble(model).unlink(missing_ok=True)

    def trouble(self, model: str) -> str | None:
        """Why nothing may be sent to ``model``; None if it serves."""
        try:
            return self._trouble(model).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def work(self, model: str) -> Work:
        """The sign of this process that it is at work for ``model``."""
        return Work(self.folder / "busy" / f"{model}.{os.getpid()}")

    def last_sign(self, model: str, pid: int) -> float | None:
        """When a process at work got on last (seconds since 1970); None if it is not at work."""
        try:
            return (self.folder / "busy" / f"{model}.{pid}").stat().st_mtime
        except FileNotFoundError:
            return None

    def forget(self, model: str, pid: int) -> None:
        """Take down the sign of a process that is dead."""
        (self.folder / "busy" / f"{model}.{pid}").unlink(missing_ok=True)

    def at_work(self, model: str) -> bool:
        """Whether any process of ``model`` is at work."""
        return any((self.folder / "busy").glob(f"{model}.*"))

    def clear(self) -> None:
        """Take down what is said of models; a new tritonserver begins with none of it."""
        for name in ("trouble", "busy"):
            for file in (self.folder / name).iterdir():
                file.unlink(missing_ok=True)

    def _trouble(self, model: str) -> Path:
        return self.folder / "trouble" / model


class Work:
    """The sign that a process is at work, with any number of jobs. path: None for no sign at all."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._jobs = 0
        self._lock = threading.Lock()

    @contextmanager
    def job(self) -> Iterator[Callable[[], None]]:
        """One job; gives the function to call whenever it gets on."""
        with self._lock:
            self._jobs += 1
            self._touch()
        try:
            yield self.get_on
        finally:
            with self._lock:
                self._jobs -= 1
                if self._path and not self._jobs:
                    self._path.unlink(missing_ok=True)
            self.get_on()

    def get_on(self) -> None:
        """Show that it is not stuck."""
        with self._lock:
            if self._jobs:
                self._touch()

    def _touch(self) -> None:
        if self._path:
            with suppress(FileNotFoundError):  # the board is gone: so is its supervisor
                self._path.touch()
