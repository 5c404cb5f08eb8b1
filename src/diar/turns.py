"""Speaker turns in samples, and their RTTM lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from diar.profile import SAMPLE_RATE


def speaker_label(index: int) -> str:
    """Label of the ``index``-th speaker to appear.

    >>> speaker_label(3)
    'SPEAKER_03'
    """
    return f"SPEAKER_{index:02d}"


@dataclass(frozen=True, order=True)
class Turn:
    """One speaker, active in ``[start, end)`` samples. confidence: 0 to 1."""

    start: int
    end: int
    speaker: str
    confidence: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError for an empty or reversed turn."""
        if not 0 <= self.start < self.end:
            raise ValueError(f"expected 0 <= start < end, got [{self.start}, {self.end})")


def seconds(samples: int) -> float:
    """Samples as seconds with 3 decimals.

    >>> seconds(12_345)
    0.772
    """
    return round(samples / SAMPLE_RATE, 3)


def to_rttm(turns: Iterable[Turn], file_id: str) -> str:
    r"""RTTM text, a line per turn: onset and *duration* in seconds.

    The duration is the difference of the printed times, so onset + duration is the printed end. A blank in a
    name becomes ``_``.

    >>> to_rttm([Turn(24_000, 52_000, "SPEAKER_00")], "demo")
    'SPEAKER demo 1 1.500 1.750 <NA> <NA> SPEAKER_00 <NA> <NA>\n'
    """
    lines = []
    for turn in turns:
        onset, end = seconds(turn.start), seconds(turn.end)
        name = "_".join(turn.speaker.split())
        lines.append(f"SPEAKER {file_id} 1 {onset:.3f} {end - onset:.3f} <NA> <NA> {name} <NA> <NA>\n")
    return "".join(lines)
