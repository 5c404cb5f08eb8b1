"""Clusters that are no voice of their own: local speakers that hold two voices at once.

The segmentation sometimes takes two people for one local speaker. Its embedding then lies between theirs;
where that happens often, such rows make a cluster that no score merges with either voice. In the model of
``evidence`` what is known of a cluster is held against a speaker of its own and against a mixture of two
others, ``u = s (w u1 + (1 − w) u2)``, with s such that a mixture is as long as what it is made of.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diar.profile import ClusteringConstants

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

LEAST_PART = 1 / 3  # of a mixture's own seconds: a voice that was heard less alone makes no mixture
WEIGHTS = np.linspace(0.1, 0.9, 9)  # of the nearer voice in a mixture


def find_blends(
    v: Floats, m: Floats, seconds: Floats, most: int, constants: ClusteringConstants
) -> list[int]:
    """Clusters that are rather a mixture of two others, themselves none, than a speaker of their own.

    v, m: (cluster,) and (cluster, dim), precision and mean times it. seconds: (cluster,). most: so many at
    most. The longest comes first; of equally long ones the lower index.
    """
    precision = 1 / constants.b + v
    means = m / precision[:, None]  # of the posteriors
    order = np.argsort(-seconds, kind="stable").tolist()
    found: list[int] = []
    for cluster in order:
        enough = seconds >= LEAST_PART * seconds[cluster]
        parts = [other for other in order if enough[other] and other != cluster and other not in found]
        if len(parts) < 2 or len(found) == most:
            continue
        observed, variance = m[cluster] / v[cluster], 1 / v[cluster]
        blend = _best_mixture(means[parts], 1 / precision[parts], observed, variance)
        if blend > _log_density(observed @ observed, variance + constants.b):
            found.append(cluster)
    return found


def _best_mixture(means: Floats, variances: Floats, observed: Floats, noise: float) -> float:
    """Greatest log density of a vector under mixtures of the nearest voice and another one.

    means: (voice, dim). variances: (voice,). observed: (dim,), with its own variance ``noise``.
    """
    length = np.linalg.norm(means, axis=1)
    nearest = int((means @ observed / length).argmax())
    others = np.arange(len(means)) != nearest
    w, rest = WEIGHTS, 1 - WEIGHTS
    mixed = w[:, None] * means[nearest] + rest[:, None] * means[others][:, None]  # (voice, weight, dim)
    scale = (w * length[nearest] + rest * length[others][:, None]) / np.linalg.norm(mixed, axis=2)
    spread = scale**2 * (w**2 * variances[nearest] + rest**2 * variances[others][:, None])
    distance = ((scale[..., None] * mixed - observed) ** 2).sum(axis=2)
    return float(_log_density(distance, spread + noise).max())


def _log_density(squared: npt.ArrayLike, variance: npt.ArrayLike) -> Floats:
    """Of a normal vector at this squared distance from its mean, times 2/dim, but for a constant."""
    return np.asarray(-np.asarray(squared) / variance - np.log(variance))
