"""Praat's TextGrid, long text form: a tier per speaker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diar.turns import Turn, seconds


def to_textgrid(turns: Sequence[Turn], speakers: Sequence[str], num_samples: int) -> str:
    """The turns of each of ``speakers`` as the intervals of a tier; what lies between is empty.

    Praat reads no file without a tier and no tier of no length: there is always one, of 1 ms or more.
    """
    end_s = max(seconds(num_samples), 0.001)
    speakers = speakers or ["speech"]
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    lines += ["xmin = 0", f"xmax = {end_s:.3f}", "tiers? <exists>", f"size = {len(speakers)}", "item []:"]
    for number, speaker in enumerate(speakers, start=1):
        own = sorted(turn for turn in turns if turn.speaker == speaker)
        lines += [f"    {line}" for line in _tier(number, speaker, own, end_s)]
    return "\n".join(lines) + "\n"


def _tier(number: int, speaker: str, turns: Sequence[Turn], end_s: float) -> Iterator[str]:
    intervals = list(_intervals(turns, end_s))
    yield f"item [{number}]:"
    yield '    class = "IntervalTier"'
    yield f"    name = {_quoted(speaker)}"
    yield "    xmin = 0"
    yield f"    xmax = {end_s:.3f}"
    yield f"    intervals: size = {len(intervals)}"
    for index, (start_s, stop_s, text) in enumerate(intervals, start=1):
        yield f"    intervals [{index}]:"
        yield f"        xmin = {start_s:.3f}"
        yield f"        xmax = {stop_s:.3f}"
        yield f"        text = {_quoted(text)}"


def _intervals(turns: Sequence[Turn], end_s: float) -> Iterator[tuple[float, float, str]]:
    """The turns and the gaps between them, from 0 to ``end_s``: Praat wants no time left out."""
    at_s = 0.0
    for turn in turns:
        start_s, stop_s = seconds(turn.start), seconds(turn.end)
        if start_s > at_s:
            yield at_s, start_s, ""
        yield start_s, stop_s, turn.speaker
        at_s = stop_s
    if at_s < end_s or not turns:
        yield at_s, end_s, ""


def _quoted(text: str) -> str:
    """Praat doubles a quotation mark inside a text.

    >>> _quoted('"Bo"')
    '\"\"\"Bo\"\"\"'
    """
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
