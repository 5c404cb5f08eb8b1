"""Evidence merge: greedy merging of clusters while their pooled evidence speaks for one speaker.

Model: a unit embedding is ``x = r u + noise`` with noise variance ``(1 − r²)/dim`` per dimension and
speakers ``u ~ N(0, b/dim)``; r² grows with clean seconds. The score of a pair is the log-likelihood ratio
of one speaker against two (two-covariance scoring, Brümmer and de Villiers, "The speaker partitioning
problem", Odyssey 2010), less a term for pairs that are often heard side by side. docs/clustering.md has
the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diar.blends import find_blends
from diar.profile import ClusteringConstants

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass
class Evidence:
    """What is known of each group. Changed in place by merging.

    nu: (group,) precision. force: (group, dim) precision-weighted sum of vectors. rows: (group,) number of
    embeddings. together: (group, group) windows in which both are active as different local speakers.
    seconds: (group,) clean seconds, counted once however many windows hold them.
    """

    nu: Floats
    force: Floats
    rows: Floats
    together: Floats
    seconds: Floats

    @classmethod
    def of_groups(
        cls,
        vectors: Floats,
        speech: Floats,
        window: Ints,
        groups: Ints,
        share: Floats,
        constants: ClusteringConstants,
    ) -> Evidence:
        """Sum the evidence of unit vectors over their groups.

        vectors: (row, dim). speech: (row,) clean seconds. window, groups: (row,), window ascending. share:
        (row,) the part of each one's speech that it counts as its own, since windows overlap.
        """
        count = int(groups.max()) + 1
        nu, pull = row_evidence(vectors, speech, share, constants)
        force = np.zeros((count, vectors.shape[1]))
        np.add.at(force, groups, pull)
        together = np.zeros((count, count))
        for lag in range(1, len(window)):
            same = np.flatnonzero(window[lag:] == window[:-lag])
            if len(same) == 0:
                break
            np.add.at(together, (groups[same], groups[same + lag]), 1)
        return cls(
            np.bincount(groups, nu, count).astype(np.float64),
            force,
            np.bincount(groups, minlength=count).astype(np.float64),
            together + together.T,
            np.bincount(groups, share * speech, count).astype(np.float64),
        )


def row_evidence(
    vectors: Floats, speech: Floats, share: Floats, constants: ClusteringConstants
) -> tuple[Floats, Floats]:
    """Precision (row,) of unit vectors, and the vectors (row, dim) weighed by it; both add up.

    speech, share: as in ``Evidence.of_groups``.
    """
    r2 = np.clip(speech / (speech + constants.c_s), 0.2, 0.9)
    nu = constants.kappa * share * r2 / (1 - r2)
    return nu, (nu / np.sqrt(r2))[:, None] * vectors


def capped(nu: Floats, force: Floats, constants: ClusteringConstants) -> tuple[Floats, Floats]:
    """Precision of a speaker and its mean times that: however long it was heard, at most ``vmax``.

    nu: (cluster,). force: (cluster, dim).
    """
    v = nu / (1 + nu / constants.vmax)
    return v, (v / nu)[:, None] * force


def log_likelihood(v: Floats, norm2: Floats, constants: ClusteringConstants) -> Floats:
    """Of a speaker's evidence, but for a constant: precision and squared length of the mean times it."""
    return np.asarray(norm2 / (1 / constants.b + v) - np.log1p(constants.b * v))


def merge_clusters(
    evidence: Evidence, constants: ClusteringConstants, bounds: tuple[int, int | None]
) -> tuple[Ints, Ints]:
    """Merge groups greedily, best pair first.

    bounds: least and greatest number of clusters that count, of at least ``min_cluster_s`` clean seconds
    and ``min_cluster_share`` of all. Merging stops when no pair speaks for one speaker; clusters that are
    mixtures of two others are then set aside. If more than the greatest number count, those are merged
    that are least unlike for their length. Nothing of this takes one of the counted clusters away when only
    the least number is left, and no cluster merges when there are no more in all.
    Returns (group,) the cluster of each group and (speaker,) the clusters that count as speakers, ascending.
    """
    least, most = bounds
    state = _Merger(evidence, constants)
    sifted = False
    while state.alive.sum() > max(least, 1):
        score, i, j = state.best_pair()
        counted = state.counted()
        if score <= 0 and not sifted:
            state.set_blends_aside(max(least, 1))
            sifted = True
            continue
        if score <= 0:
            if most is None or counted.sum() <= most:
                break
            i, j = state.cheapest_pair()
        if counted.sum() <= least and counted[i] and counted[j]:
            break
        state.merge(i, j)
    return state.cluster, _speakers(state, least, most)


def _speakers(state: _Merger, least: int, most: int | None) -> Ints:
    """The clusters that are speakers: those large enough, filled up with the longest if too few."""
    alive = np.flatnonzero(state.alive)
    by_length = alive[np.argsort(-state.evidence.seconds[alive], kind="stable")]
    wanted = max(int(state.counted().sum()), min(least, len(alive)), 1)
    return np.sort(by_length[: wanted if most is None else min(wanted, most)])


class _Merger:
    """Scores of all pairs, with the best partner of each cluster kept up to date."""

    def __init__(self, evidence: Evidence, constants: ClusteringConstants) -> None:
        self.evidence = evidence
        self.constants = constants
        self._least_s = max(
            constants.min_cluster_s, constants.min_cluster_share * float(evidence.seconds.sum())
        )
        count = len(evidence.nu)
        self.alive = np.ones(count, bool)
        self.cluster = np.arange(count)
        self._v = np.zeros(count)
        self._m = np.zeros_like(evidence.force)
        self._own = np.zeros(count)
        for index in range(count):
            self._refresh(index)
        self._scores = np.full((count, count), -np.inf)
        for index in range(count):
            self._scores[index] = self._row(index)
        self._partner = self._scores.argmax(axis=1)
        self._best = self._scores.max(axis=1)

    def counted(self) -> npt.NDArray[np.bool_]:
        """(cluster,) which clusters are alive and long enough to be a speaker."""
        return np.asarray(self.alive & (self.evidence.seconds >= self._least_s))

    def best_pair(self) -> tuple[float, int, int]:
        """Score and members, lower index first, of the best pair; ties go to the lowest indices."""
        i = int(self._best.argmax())
        j = int(self._partner[i])
        return float(self._best[i]), min(i, j), max(i, j)

    def cheapest_pair(self) -> tuple[int, int]:
        """Of the clusters that count the two, lower index first, that it costs least to take for one.

        The cost is what the score lacks to zero times the seconds of the shorter one: evidence is capped, but
        not how much speech gets a wrong name. Ties go to the lowest indices.
        """
        counted = np.flatnonzero(self.counted())
        one, two = np.triu_indices(len(counted), 1)
        i, j = counted[one], counted[two]
        cost = -self._scores[i, j] * np.minimum(self.evidence.seconds[i], self.evidence.seconds[j])
        best = int(cost.argmin())
        return int(i[best]), int(j[best])

    def merge(self, i: int, j: int) -> None:
        """Make cluster j a part of cluster i."""
        e = self.evidence
        for sums in (e.nu, e.force, e.rows, e.seconds, e.together):
            sums[i] += sums[j]
        e.together[:, i] += e.together[:, j]
        self.alive[j] = False
        self.cluster[self.cluster == j] = i
        self._refresh(i)
        self._scores[j] = self._scores[:, j] = -np.inf
        self._scores[i] = self._scores[:, i] = self._row(i)
        stale = self.alive & ((self._partner == i) | (self._partner == j))
        stale[i] = True
        self._best[j] = -np.inf
        better = self.alive & ~stale & (self._scores[:, i] >= self._best)
        lower = better & ((self._scores[:, i] > self._best) | (i < self._partner))
        self._best[lower], self._partner[lower] = self._scores[lower, i], i
        for index in np.flatnonzero(stale):
            self._partner[index] = self._scores[index].argmax()
            self._best[index] = self._scores[index, self._partner[index]]

    def set_blends_aside(self, least: int) -> None:
        """Take clusters out that are mixtures of two others, while more than ``least`` count."""
        counted = np.flatnonzero(self.counted())
        v, m, seconds = self._v[counted], self._m[counted], self.evidence.seconds[counted]
        blends = counted[find_blends(v, m, seconds, len(counted) - least, self.constants)]
        self.alive[blends] = False
        self._scores[blends] = self._scores[:, blends] = self._best[blends] = -np.inf
        for index in np.flatnonzero(self.alive & np.isin(self._partner, blends)):
            self._partner[index] = self._scores[index].argmax()
            self._best[index] = self._scores[index, self._partner[index]]

    def _refresh(self, i: int) -> None:
        """Mean and capped precision of cluster i, and its own log-likelihood."""
        at = slice(i, i + 1)
        self._v[at], self._m[at] = capped(self.evidence.nu[at], self.evidence.force[at], self.constants)
        self._own[i] = self._likelihood(self._v[i], self._m[i] @ self._m[i])

    def _row(self, i: int) -> Floats:
        """Scores of cluster i with every other one; −inf for itself and for merged ones."""
        norm2 = np.einsum("id,id->i", self._m, self._m)
        pooled = norm2 + norm2[i] + 2 * (self._m @ self._m[i])
        row = self._likelihood(self._v + self._v[i], pooled) - self._own - self._own[i]
        e, c = self.evidence, self.constants
        overlap = e.together[i] / np.maximum(e.rows, e.rows[i])
        row = row - c.lambda_ * np.maximum(0, overlap - c.f0)
        row[~self.alive] = -np.inf
        row[i] = -np.inf
        return np.asarray(row)

    def _likelihood(self, v: Floats, norm2: Floats) -> Floats:
        return log_likelihood(v, norm2, self.constants)
