"""What the command shows on standard error while it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text


class Display:
    """Progress bar (on a terminal only) and one-line messages. quiet: errors only."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            transient=True,
        )

    @contextmanager
    def recording(self, name: str) -> Iterator[Recording]:
        """Show the work on one recording while inside."""
        with self._bar:
            task = self._bar.add_task(name, total=None, count="")
            try:
                yield Recording(self._bar, task, name)
            finally:
                self._bar.remove_task(task)

    def warn(self, text: str) -> None:
        """A line that does not end the work."""
        if not self._quiet:
            self._say(f"warning: {text}")

    def error(self, text: str) -> None:
        """A line that says why something was not done."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(Text(f"diarize: {' '.join(text.split())}"))


class Recording:
    """The line of one recording."""

    def __init__(self, bar: Progress, task: TaskID, name: str) -> None:
        self._bar, self._task, self._name = bar, task, name

    def stage(self, stage: str) -> None:
        """Say what is done now, when it is not known how far it is."""
        self._bar.update(self._task, description=f"{self._name}: {stage}", total=None)

    def blocks(self, done: int, total: int) -> None:
        """Say how many blocks are done."""
        self._bar.update(self._task, completed=done, total=total, count=f"{done}/{total} blocks")
