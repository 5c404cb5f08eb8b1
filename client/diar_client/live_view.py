"""A live recording drawn for a terminal: the last minute or so, a row a speaker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from diar.profile import SAMPLE_RATE
from diar.tools.timeline import clock
from diar.turns import Turn
from diar_client.stream import LiveUpdate

COLUMN = SAMPLE_RATE // 2  # half a second a character
TICK_COLUMNS = 20
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")
FINAL, TENTATIVE = "█", "▒"
BEHIND_S = 3.0  # more than pipes and pieces explain
ROUNDING = SAMPLE_RATE // 500  # updates have their times to the millisecond


class TurnJoiner:
    """Joins what updates commit bit by bit to whole turns."""

    def __init__(self) -> None:
        self._open: dict[str, Turn] = {}  # speaker -> a turn that may go on

    def add(self, update: LiveUpdate) -> list[Turn]:
        """The turns that are over by this update, in order."""
        over = []
        for turn in update.committed:
            before = self._open.get(turn.speaker)
            if before and before.end == turn.start:
                turn = Turn(before.start, turn.end, turn.speaker, turn.confidence)
            elif before:
                over.append(before)
            self._open[turn.speaker] = turn
        edge = update.num_samples - update.latency - ROUNDING
        for speaker in [speaker for speaker, turn in self._open.items() if turn.end < edge]:
            over.append(self._open.pop(speaker))
        return sorted(over)

    def rest(self) -> list[Turn]:
        """The turns that were still going on at the end, as far as they were final."""
        return sorted(self._open.values())


class LiveView:
    """The drawing; redrawn from what updates have said so far."""

    def __init__(self) -> None:
        self._now = 0
        self._final_to = 0
        self._recent: list[Turn] = []  # final turns, the old ones given up when they are out of sight
        self._tentative: Sequence[Turn] = ()
        self._spoken: dict[str, int] = {}  # speaker -> samples of final turns

    def add(self, update: LiveUpdate) -> None:
        """Take an update."""
        self._now = update.num_samples
        self._final_to = update.num_samples - update.latency
        self._tentative = update.tentative
        self._recent += update.committed
        for turn in update.committed:
            self._spoken[turn.speaker] = self._spoken.get(turn.speaker, 0) + turn.end - turn.start
        for turn in update.tentative:
            self._spoken.setdefault(turn.speaker, 0)

    def lines(self, width: int, elapsed_s: float = 0.0) -> Iterator[Text]:
        """Yield the drawing, at most ``width`` characters wide; the right edge is now.

        elapsed_s: since the sound began. If it is much more than there is sound, the server is too slow.
        """
        final_s, now_s = self._final_to / SAMPLE_RATE, self._now / SAMPLE_RATE
        behind = f", {elapsed_s - now_s:.0f} s behind" if elapsed_s - now_s > BEHIND_S else ""
        yield Text(f"{clock(now_s)}{behind}, final up to {clock(max(0.0, final_s))}; Ctrl-C ends it")
        labels = sorted(self._spoken)
        margin = max(map(len, labels), default=0) + 2
        columns = max(TICK_COLUMNS, width - margin - 9)
        first = max(0, -(-self._now // COLUMN) - columns)
        self._recent = [turn for turn in self._recent if turn.end > first * COLUMN]
        yield Text(" " * margin + _ticks(first, columns), style="dim")
        for index, label in enumerate(labels):
            style = COLOURS[index % len(COLOURS)]
            bar = Text()
            for column in range(first, first + columns):
                mark, dim = self._mark(label, column * COLUMN)
                bar.append(mark, f"{style} dim" if dim else style)
            yield Text.assemble(label.ljust(margin), bar, f" {self._spoken[label] / SAMPLE_RATE:6.1f} s")

    def _mark(self, label: str, start: int) -> tuple[str, bool]:
        """The character for half a second of one speaker, and whether it is tentative."""
        for turns, mark in ((self._recent, FINAL), (self._tentative, TENTATIVE)):
            heard = sum(
                max(0, min(turn.end, start + COLUMN) - max(turn.start, start))
                for turn in turns
                if turn.speaker == label
            )
            if heard > COLUMN // 4:
                return mark, mark == TENTATIVE
        return " ", False


def _ticks(first: int, columns: int) -> str:
    """Times above the columns, each at a column that stands for ten full seconds."""
    line = [" "] * (columns + TICK_COLUMNS)
    for column in range(-(-first // TICK_COLUMNS) * TICK_COLUMNS, first + columns, TICK_COLUMNS):
        mark = f"|{clock(column * COLUMN / SAMPLE_RATE)}"
        line[column - first : column - first + len(mark)] = mark
    return "".join(line)[:columns].rstrip()
