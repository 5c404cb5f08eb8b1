"""Whether confidence means something: right and wrong seconds against the confidence of their turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from diar.profile import SAMPLE_RATE
from diar.tools.der import map_speakers
from diar.turns import Turn

_BINS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True)
class Judged:
    """One turn as it was found: its confidence, and its seconds with the right and with a wrong speaker."""

    confidence: float
    right_s: float
    wrong_s: float


def judge_turns(reference: Sequence[Turn], hypothesis: Sequence[Turn], num_samples: int) -> list[Judged]:
    """How much of each found turn the speaker that it stands for really speaks.

    Speakers are mapped one to one, as for the DER; a speaker that is mapped to nobody is wrong throughout.
    """
    active: dict[str, npt.NDArray[np.bool_]] = {}
    for turn in reference:
        mask = active.setdefault(turn.speaker, np.zeros(num_samples, bool))
        mask[turn.start : turn.end] = True
    mapping = map_speakers(reference, hypothesis, num_samples)
    judged = []
    for turn in hypothesis:
        mask = active.get(mapping.get(turn.speaker, ""), np.zeros(num_samples, bool))
        right = int(mask[turn.start : turn.end].sum())
        wrong = turn.end - turn.start - right
        judged.append(Judged(turn.confidence, right / SAMPLE_RATE, wrong / SAMPLE_RATE))
    return judged


def area_under_curve(judged: Sequence[Judged]) -> float:
    """Chance that a right second is in a turn of higher confidence than a wrong one; ties count half.

    >>> area_under_curve([Judged(0.9, 3.0, 1.0), Judged(0.2, 0.0, 1.0)])
    0.75
    """
    right, wrong = _by_confidence(judged)
    below = np.cumsum(wrong) - wrong / 2
    return float((right * below).sum() / (right.sum() * wrong.sum()))


def reliability(judged: Sequence[Judged]) -> list[tuple[float, float, float, float]]:
    """Rows of (from, to, seconds, share of them that are right), for ranges of confidence."""
    rows = []
    for low, high in pairwise(_BINS):
        part = [j for j in judged if low <= j.confidence < high or j.confidence == high == 1.0]
        seconds = sum(j.right_s + j.wrong_s for j in part)
        if seconds:
            rows.append((low, high, seconds, sum(j.right_s for j in part) / seconds))
    return rows


def lines(judged: Sequence[Judged]) -> list[str]:
    """What a person reads."""
    text = [f"confidence: AUC of right against wrong seconds {area_under_curve(judged):.3f}"]
    text += [
        f"  {low:4.2f} to {high:4.2f}: {seconds:7.1f} s, {100 * right:5.1f} % right"
        for low, high, seconds, right in reliability(judged)
    ]
    return text


def _by_confidence(
    judged: Sequence[Judged],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Right and wrong seconds of each confidence that occurs, ascending."""
    values, index = np.unique([j.confidence for j in judged], return_inverse=True)
    right = np.bincount(index, [j.right_s for j in judged], len(values))
    wrong = np.bincount(index, [j.wrong_s for j in judged], len(values))
    return right.astype(np.float64), wrong.astype(np.float64)
