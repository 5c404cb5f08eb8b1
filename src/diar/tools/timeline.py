"""Who spoke when, drawn for a terminal: a row a speaker, time from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from rich.text import Text

from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.turns import Turn

_COLUMN_S = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600)  # seconds that one character may stand for
_MAX_STRIPS = 6
_TICK_COLUMNS = 10
_SHADES = " ░▒▓█"
_SHADE_FROM = (0.05, 0.35, 0.65, 0.9)  # least share of a column's time for each shade but the first
_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")
_MAX_LISTED = 20


def timeline(diarization: Diarization, width: int) -> Iterator[Text]:
    """Yield the lines of the drawing, at most ``width`` (40 or more) characters each."""
    duration_s = diarization.num_samples / SAMPLE_RATE
    yield Text(f"{diarization.file_id}: {clock(duration_s)}, {_count(len(diarization.speakers), 'speaker')}")
    if not diarization.speakers:
        yield Text("no speech found")
        return
    labels = [speaker.label for speaker in diarization.speakers]
    margin = max(map(len, labels)) + 2
    columns = (width - margin) // _TICK_COLUMNS * _TICK_COLUMNS
    column_s = _column_seconds(duration_s, columns)
    shares = np.stack([_shares(diarization, label, column_s) for label in labels])
    for first in range(0, shares.shape[1], columns):
        yield Text("")
        yield Text(" " * margin + _ticks(first, min(columns, shares.shape[1] - first), column_s), style="dim")
        for index, (label, row) in enumerate(zip(labels, shares, strict=True)):
            bar = "".join(
                _SHADES[np.searchsorted(_SHADE_FROM, x, "right")] for x in row[first : first + columns]
            )
            yield Text.assemble(label.ljust(margin), (bar, _colour(index)))
    yield Text("")
    for index, speaker in enumerate(diarization.speakers):
        yield Text.assemble((speaker.label, _colour(index)), f"  speaks {speaker.speech / SAMPLE_RATE:.1f} s")


def listing(turns: Sequence[Turn], most: int = _MAX_LISTED) -> Iterator[Text]:
    """Yield a line for each of the first ``most`` turns, and one that counts the others."""
    for turn in turns[:most]:
        start, end = turn.start / SAMPLE_RATE, turn.end / SAMPLE_RATE
        yield Text(f"{clock(start, 2):>10} - {clock(end, 2):>10}  {turn.speaker}")
    if len(turns) > most:
        yield Text(f"... and {_count(len(turns) - most, 'more turn')}")


def clock(time_s: float, decimals: int = 0) -> str:
    """Time of a recording for people.

    >>> clock(75), clock(3605.5, 2)
    ('1:15', '1:00:05.50')
    """
    units = round(time_s * 10**decimals)
    whole, rest = divmod(units, 10**decimals)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    return f"{text}.{rest:0{decimals}d}" if decimals else text


def _column_seconds(duration_s: float, columns: int) -> float:
    fitting = (step for step in _COLUMN_S if duration_s <= step * columns * _MAX_STRIPS)
    return next(fitting, _COLUMN_S[-1])


def _shares(diarization: Diarization, label: str, column_s: float) -> npt.NDArray[np.float64]:
    """(column,) the share of each column's time in which the speaker is active."""
    column = round(column_s * SAMPLE_RATE)
    edges = np.arange(0, diarization.num_samples + column, column)
    active = np.zeros(len(edges))
    for turn in diarization.turns:
        if turn.speaker == label:  # by time spoken before each edge
            active += np.clip(edges - turn.start, 0, turn.end - turn.start)
    lengths = np.minimum(np.diff(edges), diarization.num_samples - edges[:-1])
    shares: npt.NDArray[np.float64] = np.diff(active) / np.maximum(lengths, 1)
    return shares


def _ticks(first: int, columns: int, column_s: float) -> str:
    marks = range(first, first + columns, _TICK_COLUMNS)
    return "".join(f"|{clock(mark * column_s)}".ljust(_TICK_COLUMNS) for mark in marks)[:columns].rstrip()


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
