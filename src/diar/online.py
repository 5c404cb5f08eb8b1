"""Telling speakers apart while a recording goes on.

What was heard is kept as groups of surely alike voices, a bounded number of them, with their evidence. At
each step the groups are merged into speakers anew, by the rules that hold at the end (``diar.evidence``), so
an early mistake is repaired when more is known. A speaker keeps its number with most of its groups.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diar.clustering import assign, unit
from diar.evidence import Evidence, merge_clusters, row_evidence
from diar.profile import ClusteringConstants

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

MAX_GROUPS = 100  # kept apart; beyond that the two most alike become one


class OnlineSpeakers:
    """The speakers so far, numbered from 0 to ``most − 1``; ``dim`` numbers in an embedding."""

    def __init__(self, constants: ClusteringConstants, dim: int, most: int) -> None:
        self._constants = constants
        self._most = most
        none = np.zeros(0)
        self._heard = Evidence(none, np.zeros((0, dim)), none, np.zeros((0, 0)), none)  # of each group
        self._shown = np.zeros((0, most))  # seconds for which a group was given each number

    def assign(self, vectors: Floats, speech: Floats, share: float, recent: Floats) -> Ints:
        """Give each local speaker of a window a speaker, and learn from them.

        vectors: (row, dim) of length 1, or zeros. speech: (row,) clean seconds. share: how much of the window
        is new. recent: (row,) how much of its speech counts beyond that for now, since it was in few windows
        yet. Returns (row,) numbers of speakers; two rows have the same one only if any other is far.
        """
        rows = self._telling(vectors, speech)
        groups = self._groups(vectors[rows])
        if len(self._heard.nu) == 0:
            return np.zeros(len(vectors), np.intp)
        self._learn(groups, vectors[rows], speech[rows], share)
        centroids, numbers = self._speakers(self._now(groups, vectors[rows], speech[rows], recent[rows]))
        one_window = np.zeros(len(vectors), np.intp)
        chosen = numbers[assign(vectors @ centroids.T, one_window, self._constants.delta)]
        np.add.at(self._shown, (groups, chosen[rows]), share * speech[rows])
        return chosen

    def _telling(self, vectors: Floats, speech: Floats) -> Ints:
        """The rows that are clustered; as long as there is nothing better, all that have a voice."""
        voiced = vectors.any(axis=1)
        enough = voiced & (speech >= self._constants.min_clean_s)
        return np.flatnonzero(enough if enough.any() or len(self._heard.nu) else voiced)

    def _groups(self, vectors: Floats) -> Ints:
        """The group of each vector of a window, none twice; a new one where none is alike."""
        groups = np.empty(len(vectors), np.intp)
        for row, vector in enumerate(vectors):
            cosine = unit(self._heard.force) @ vector
            cosine[groups[:row]] = -1.0
            alike = len(cosine) > 0 and cosine.max() >= self._constants.precut_cosine
            groups[row] = cosine.argmax() if alike else self._add_group(groups[:row])
        return groups

    def _add_group(self, in_use: Ints) -> int:
        """A new, empty group; ``in_use`` are changed in place if others are renumbered for it."""
        if len(self._heard.nu) >= MAX_GROUPS:
            gone = self._join_closest(in_use)
            in_use[in_use > gone] -= 1
        e = self._heard
        self._heard = Evidence(
            np.pad(e.nu, (0, 1)),
            np.pad(e.force, ((0, 1), (0, 0))),
            np.pad(e.rows, (0, 1)),
            np.pad(e.together, (0, 1)),
            np.pad(e.seconds, (0, 1)),
        )
        self._shown = np.pad(self._shown, ((0, 1), (0, 0)))
        return len(e.nu)

    def _join_closest(self, in_use: Ints) -> int:
        """Make one group of the two most alike; returns the number that is gone, none of ``in_use``."""
        e = self._heard
        cosine = np.tril(unit(e.force) @ unit(e.force).T, -1) - 2 * np.tri(len(e.nu)).T
        cosine[in_use] = -2.0
        gone, stays = np.unravel_index(cosine.argmax(), cosine.shape)
        for sums in (e.nu, e.force, e.rows, e.seconds, e.together, e.together.T, self._shown):
            sums[stays] += sums[gone]
        e.together[stays, stays] = 0.0
        kept = np.flatnonzero(np.arange(len(e.nu)) != gone)
        self._heard = Evidence(
            e.nu[kept], e.force[kept], e.rows[kept], e.together[np.ix_(kept, kept)], e.seconds[kept]
        )
        self._shown = self._shown[kept]
        return int(gone)

    def _learn(self, groups: Ints, vectors: Floats, speech: Floats, share: float) -> None:
        e = self._heard
        nu, force = row_evidence(vectors, speech, np.full(len(groups), share), self._constants)
        e.nu[groups] += nu
        e.force[groups] += force
        e.rows[groups] += 1
        e.seconds[groups] += share * speech
        e.together[np.ix_(groups, groups)] += 1 - np.eye(len(groups))

    def _now(self, groups: Ints, vectors: Floats, speech: Floats, recent: Floats) -> Evidence:
        """What was heard, with the newest window in full."""
        e = self._heard
        nu, force = row_evidence(vectors, speech, recent, self._constants)
        now = Evidence(e.nu.copy(), e.force.copy(), e.rows.copy(), e.together.copy(), e.seconds.copy())
        now.nu[groups] += nu
        now.force[groups] += force
        now.seconds[groups] += recent * speech
        return now

    def _speakers(self, evidence: Evidence) -> tuple[Floats, Ints]:
        """Merge the groups: (speaker, dim) centroids of length 1, and the numbers of the speakers.

        Among the speakers the numbers are dealt out so that most seconds keep theirs.
        """
        from scipy.optimize import linear_sum_assignment  # only here, as in diar.clustering

        force = evidence.force.copy()  # merging changes the evidence
        merged, large = merge_clusters(evidence, self._constants, (1, self._most))
        members = [merged == cluster for cluster in large]
        centroids = unit(np.array([force[groups].sum(axis=0) for groups in members]))
        shown = np.array([self._shown[groups].sum(axis=0) for groups in members])
        unused = self._shown.sum(axis=0) == 0
        first_unused = np.where(unused, 1e-6 - 1e-9 * np.arange(self._most), 0.0)
        return centroids, linear_sum_assignment(shown + first_unused, maximize=True)[1]
