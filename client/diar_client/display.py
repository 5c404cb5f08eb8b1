"""What the command shows on standard error while it works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from diar.errors import DiarError
from diar.profile import SAMPLE_RATE
from diar.result import turn_document
from diar.tools.timeline import clock
from diar.turns import Turn
from diar_client import exit_codes

PREFIX = "diarize: "


class Display:
    """Progress of all recordings (on a terminal only) and one-line messages.

    quiet: errors only. as_json: messages as JSON documents, and no progress.
    """

    def __init__(self, quiet: bool, as_json: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.shows = self.console.is_terminal and not quiet and not as_json
        self._quiet = quiet
        self._as_json = as_json
        self._retried: set[str] = set()  # words of failures that were told
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.shows,
            transient=True,
        )
        self._all: TaskID | None = None

    def start(self, num_recordings: int) -> None:
        """Several recordings have a line for all of them. For ``with``."""
        if num_recordings > 1:
            self._all = self._bar.add_task("recordings", total=num_recordings, count=f"0/{num_recordings}")

    def __enter__(self) -> Display:
        """Show progress while inside."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it off the screen."""
        self._bar.stop()

    @contextmanager
    def recording(self, name: str) -> Iterator[RecordingLine]:
        """Show the work on one recording while inside."""
        task = self._bar.add_task(name, total=None, count="")
        try:
            yield RecordingLine(self._bar, task, name)
        finally:
            self._bar.remove_task(task)

    def finished(self, done: int, failed: int, total: int) -> None:
        """Say how many recordings are through."""
        if self._all is not None:
            count = f"{done + failed}/{total}" + (f", {failed} failed" if failed else "")
            self._bar.update(self._all, completed=done + failed, count=count)

    def warn(self, text: str, file: str | None = None) -> None:
        """A line that does not end the work."""
        if self._quiet:
            return
        if self._as_json:
            self._say(json.dumps({"level": "warning", "file": file, "text": text}))
        else:
            self._say(f"{PREFIX}warning: {_about(file, text)}")

    def retried(self, error: DiarError) -> None:
        """Why something is tried again; once for each kind of failure."""
        if error.word not in self._retried:
            self._retried.add(error.word)
            self.warn(f"{error.text}; trying again")

    def error(self, error: Exception, file: str | None = None) -> None:
        """Why something was not done."""
        word, text, code = describe(error)
        if self._as_json:
            report = {"level": "error", "file": file, "error": word, "text": text, "exit_code": code}
            self._say(json.dumps(report))
        else:
            self._say(PREFIX + _about(file, text))

    def tell(self, text: str, **keys: object) -> None:
        """How the run went. keys: the same for programs."""
        self._say(json.dumps({"level": "info", **keys}) if self._as_json else PREFIX + text)

    def turn(self, turn: Turn) -> None:
        """A turn of a live recording that is final."""
        start, end = turn.start / SAMPLE_RATE, turn.end / SAMPLE_RATE
        if self._quiet:
            return
        if self._as_json:
            self._say(json.dumps({"level": "turn", **turn_document(turn)}))
        else:
            self._say(f"{clock(start, 2):>10} - {clock(end, 2):>10}  {turn.speaker}", keep=True)

    def _say(self, text: str, keep: bool = False) -> None:
        self.console.print(Text(text if keep else " ".join(text.split())))


class RecordingLine:
    """The line of one recording."""

    def __init__(self, bar: Progress, task: TaskID, name: str) -> None:
        self._bar, self._task, self._name = bar, task, name

    def stage(self, stage: str) -> None:
        """Say what is done now, when it is not known how far it is."""
        self._bar.update(self._task, description=f"{self._name}: {stage}", total=None, count="")

    def blocks(self, done: int, total: int) -> None:
        """Say how many blocks are done."""
        self._bar.update(self._task, completed=done, total=total, count=f"{done}/{total} blocks")


def describe(error: Exception) -> tuple[str, str, int]:
    """A word for programs, a line for people, an exit code."""
    code = exit_codes.exit_code(error)
    if isinstance(error, DiarError):
        return error.word, error.text, code
    return "E_INTERNAL", f"internal error: {type(error).__name__}: {error}", code


def _about(file: str | None, text: str) -> str:
    return text if file is None or text.startswith(file) else f"{file}: {text}"
