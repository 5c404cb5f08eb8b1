"""What cosines of single speakers say: how they grow with seconds of speech, how far apart voices are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from diar.tools.stretches import DURATIONS_S, Pairs

PERCENTILES = (5, 25, 50, 75, 95)
C_RANGE_S = (0.01, 30.0)
LEAST_PAIRS = 20  # fewer pairs of one speaker give no error rate


@dataclass(frozen=True)
class Fit:
    """The constants of the evidence merge that belong to the network.

    c_s: r² = d / (d + c_s) is the share of the speaker in an embedding of d seconds. b: spread between
    speakers, 1 less the part that all have in common.
    """

    c_s: float
    b: float


@dataclass(frozen=True)
class Row:
    """Scores of pairs of stretches of ``seconds`` each.

    same, different: percentiles of the cosine. pairs: how many of each. equal_error: the rate at the
    threshold at which as many pairs of one speaker are rejected as of two accepted; None if too few.
    """

    seconds: float
    pairs: tuple[int, int]
    same: tuple[float, ...]
    different: tuple[float, ...]
    equal_error: float | None
    threshold: float | None


def fit(pairs: Pairs) -> Fit:
    """Least squares over the mean cosine of each speaker and pair of durations.

    In the model of the evidence merge, x = r u + noise with |x| = 1, u has length 1 on average: the expected
    cosine of two stretches is r1 r2 if one speaker said them, (1 - b) r1 r2 if two did.
    """
    short, long_, cosine = _cell_means(pairs.where(pairs.same))
    found = minimize_scalar(
        lambda c_s: float(np.square(_growth(short, long_, c_s) - cosine).sum()),
        bounds=C_RANGE_S,
        method="bounded",
    )
    different = pairs.where(~pairs.same)
    growth = _growth(different.short_s, different.long_s, found.x)
    common = float(growth @ different.cosine / (growth @ growth))
    return Fit(float(found.x), 1 - common)


def leave_one_out(pairs: Pairs, num_speakers: int) -> list[Fit]:
    """The fit without each speaker in turn."""
    return [fit(pairs.where((pairs.one != left) & (pairs.two != left))) for left in range(num_speakers)]


def table(pairs: Pairs) -> list[Row]:
    """Score distributions by duration, of the durations of which there are pairs of either kind."""
    rows = []
    for seconds in DURATIONS_S:
        part = pairs.where((pairs.short_s == seconds) & (pairs.long_s == seconds))
        same, different = part.cosine[part.same], part.cosine[~part.same]
        if not len(same) or not len(different):
            continue
        rate = equal_error(same, different) if len(same) >= LEAST_PAIRS else (None, None)
        rows.append(
            Row(seconds, (len(same), len(different)), _percentiles(same), _percentiles(different), *rate)
        )
    return rows


def equal_error(same: npt.NDArray[np.float64], different: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Equal error rate and the score at which it is reached.

    >>> rate, threshold = equal_error(np.array([0.2, 0.8, 0.9, 1.0]), np.array([0.0, 0.1, 0.1, 0.3]))
    >>> rate, threshold
    (0.25, 0.3)
    """
    thresholds = np.unique(np.concatenate([same, different]))
    rejected = np.searchsorted(np.sort(same), thresholds) / len(same)
    accepted = 1 - np.searchsorted(np.sort(different), thresholds) / len(different)
    best = int(np.abs(rejected - accepted).argmin())
    return float((rejected[best] + accepted[best]) / 2), float(thresholds[best])


def _percentiles(scores: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.percentile(scores, PERCENTILES).tolist())


def _growth(
    short: npt.NDArray[np.float64], long_: npt.NDArray[np.float64], c_s: float
) -> npt.NDArray[np.float64]:
    """r1 r2 of two durations."""
    return np.sqrt(short / (short + c_s) * long_ / (long_ + c_s))


def _cell_means(same: Pairs) -> tuple[npt.NDArray[np.float64], ...]:
    """Durations and mean cosine of each speaker and pair of durations, however many pairs there are of it."""
    keys = np.stack([same.one.astype(np.float64), same.short_s, same.long_s], axis=1)
    cells, index = np.unique(keys, axis=0, return_inverse=True)
    index = index.reshape(-1)  # NumPy 2.0 alone gave it a second axis
    means = np.bincount(index, same.cosine) / np.bincount(index)
    return cells[:, 1], cells[:, 2], means
