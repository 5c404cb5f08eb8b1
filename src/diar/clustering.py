"""From embeddings of local speakers to speakers of the recording: evidence merge and assignment.

The procedure and its constants are explained in docs/clustering.md. It is deterministic: no random numbers,
no iteration to convergence; all sums are float64. SciPy is imported where it is called: it takes 20 MB of
each process, and most of a server's never call it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diar.evidence import Evidence, merge_clusters
from diar.powerset import class_members
from diar.profile import Profile
from diar.spans import iter_blocks

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

FINER_CUTS = (0.8, 0.9, 0.97)  # cosines tried in turn where more speakers are asked for than there are groups
PRECLUSTER_ROWS = 2000  # embeddings per average-linkage block: bounds its memory (2000² distances)


@dataclass(frozen=True)
class LocalSpeakers:
    """The active local speakers of consecutive windows, a row each, ordered by window and slot.

    window, slot: (row,) the window of the recording and the local speaker in it. embedding: (row, dim)
    float32. speech: (row,) float32 clean seconds. pure_row: (pure,) the rows that have a pure embedding as
    well; pure: (pure, dim) float32.
    """

    window: Ints
    slot: Ints
    embedding: npt.NDArray[np.float32]
    speech: npt.NDArray[np.float32]
    pure_row: Ints
    pure: npt.NDArray[np.float32]

    @classmethod
    def of_block(
        cls,
        first_window: int,
        activity: npt.NDArray[np.bool_],
        embeddings: npt.NDArray[np.float32],
        pure_embeddings: npt.NDArray[np.float32],
        speech: npt.NDArray[np.float32],
    ) -> LocalSpeakers:
        """The rows of one block; the arrays that they come from are not kept.

        activity: (window, frame, local_speaker) bool. embeddings, pure_embeddings: (window, local_speaker,
        dim) float32. speech: (window, local_speaker) float32 seconds.
        """
        window, slot = np.nonzero(activity.any(axis=1))
        pure = pure_embeddings[window, slot]
        pure_row = np.flatnonzero(pure.any(axis=1))
        return cls(
            window + first_window,
            slot,
            embeddings[window, slot],
            speech[window, slot],
            pure_row,
            pure[pure_row],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[LocalSpeakers]) -> LocalSpeakers:
        """All rows of several blocks, in the order given."""
        offsets = np.cumsum([0] + [len(part.window) for part in parts])
        return cls(
            np.concatenate([part.window for part in parts]),
            np.concatenate([part.slot for part in parts]),
            np.concatenate([part.embedding for part in parts]),
            np.concatenate([part.speech for part in parts]),
            np.concatenate([part.pure_row + offset for part, offset in zip(parts, offsets, strict=False)]),
            np.concatenate([part.pure for part in parts]),
        )


@dataclass(frozen=True)
class Clustering:
    """Speakers of the recording, and which of them each row is.

    centroids: (cluster, dim) float64 of length 1. assignment: (row,) cluster. margin: (row,) float64,
    cosine to the own centroid less that to the next one. note: why a wish for a count was not met, or "".
    """

    centroids: Floats
    assignment: Ints
    margin: Floats
    note: str = ""


def cluster(
    rows: LocalSpeakers, classes: npt.NDArray[np.uint8], profile: Profile, bounds: tuple[int, int | None]
) -> Clustering:
    """Find the speakers of a recording and assign every row to one of them.

    classes: (window, frame) uint8, the powerset classes of all windows. bounds: least and greatest number of
    speakers; merging stops early or goes on to meet them.
    """
    dim = profile.embedding.dim
    if len(rows.window) == 0:
        return Clustering(np.zeros((0, dim)), np.zeros(0, np.intp), np.zeros(0), "there is no speech")
    chosen, vectors = _clustering_rows(rows, profile)
    share = _shares(rows, chosen, classes, profile)
    speech = rows.speech[chosen].astype(np.float64)
    labels, note = _merge(vectors, speech, rows.window[chosen], share, profile, bounds)
    centroids = _centroids(vectors, speech, labels)
    similarity = _similarity(rows, chosen, speech, labels, centroids)
    assignment = assign(similarity, rows.window, profile.clustering.delta)
    return Clustering(centroids, assignment, _margins(similarity, assignment), note)


def _centroids(vectors: Floats, speech: Floats, labels: Ints) -> Floats:
    """Unit sum of each cluster's vectors, weighed by their seconds: (cluster, dim)."""
    counted = labels >= 0
    sums = np.zeros((labels.max() + 1, vectors.shape[1]))
    np.add.at(sums, labels[counted], (vectors * np.maximum(speech, 1e-3)[:, None])[counted])
    return unit(sums)


def _similarity(rows: LocalSpeakers, chosen: Ints, speech: Floats, labels: Ints, centroids: Floats) -> Floats:
    """Cosine of each row to each cluster: (row, cluster).

    Like is compared with like: a pure embedding with the clusters' pure centroids, any other one with the
    centroids of the same clusters' rows in its own kind, since the kinds differ by a shift of their own.
    """
    spans = unit(rows.embedding.astype(np.float64))
    similarity = spans @ _centroids(spans[chosen], speech, labels).T
    if len(rows.pure_row):
        similarity[rows.pure_row] = unit(rows.pure.astype(np.float64)) @ centroids.T
    return np.asarray(similarity)


def assign(similarity: Floats, window: Ints, delta: float) -> Ints:
    """Give each local speaker a cluster; in a window they share one only if the next is delta worse.

    similarity: (row, cluster). window: (row,) ascending. Returns (row,).
    Linear assignment on the columns [S, S − delta, S − 2 delta, …]: column mod K is the cluster.
    """
    from scipy.optimize import linear_sum_assignment

    count = similarity.shape[1]
    assignment: Ints = similarity.argmax(axis=1)
    starts = np.flatnonzero(np.diff(window, prepend=-1))
    sizes = np.diff(np.append(starts, len(window)))
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        part = similarity[start : start + size]
        columns = np.concatenate([part - copy * delta for copy in range(size)], axis=1)
        assignment[start : start + size] = linear_sum_assignment(columns, maximize=True)[1] % count
    return assignment


def _clustering_rows(rows: LocalSpeakers, profile: Profile) -> tuple[Ints, Floats]:
    """The rows that are clustered, and their unit vectors."""
    least = profile.clustering.min_clean_s
    if len(rows.pure_row):
        candidates, vectors = rows.pure_row, rows.pure
    else:
        candidates, vectors = np.arange(len(rows.window)), rows.embedding
    speech = np.where(vectors.any(axis=1), rows.speech[candidates], -1)  # a zero row tells no voice
    picked = np.flatnonzero(speech >= least)
    if len(picked) < 2:
        longest = np.argsort(-speech, kind="stable")[:2]
        picked = np.sort(longest[: max(1, np.count_nonzero(speech[longest] >= 0))])
    return candidates[picked], unit(vectors[picked].astype(np.float64))


def _shares(rows: LocalSpeakers, chosen: Ints, classes: npt.NDArray[np.uint8], profile: Profile) -> Floats:
    """How much of each chosen row's speech it may count as its own: (chosen,) in (0, 1].

    Windows overlap, so the same speech is in several rows. A frame that n clustered windows hold counts 1/n
    in each: a tenth inside a long recording at hop window / 10, all of it in a recording of one window.
    """
    geometry = profile.geometry
    cover = np.zeros(geometry.first_frame(len(classes) - 1) + geometry.frames)
    for window in _clustered_windows(len(classes), profile, len(rows.pure_row) > 0):
        start = geometry.first_frame(window)
        cover[start : start + geometry.frames] += 1
    members = class_members(geometry)
    shares = np.ones(len(chosen))
    for index, row in enumerate(chosen):
        window = rows.window[row]
        active = members[classes[window], rows.slot[row]]
        start = geometry.first_frame(window)
        shares[index] = (1 / cover[start : start + geometry.frames][active]).mean()
    return shares


def _clustered_windows(num_windows: int, profile: Profile, pure: bool) -> Iterator[int]:
    """The windows whose rows are clustered, whether or not there is speech in them."""
    for block in iter_blocks(num_windows, profile.geometry):
        step = profile.pure_step(block.num_windows) if pure else 1
        yield from range(block.first_window, block.first_window + block.num_windows, step)


def _merge(
    vectors: Floats,
    speech: Floats,
    window: Ints,
    share: Floats,
    profile: Profile,
    bounds: tuple[int, int | None],
) -> tuple[Ints, str]:
    """Cluster label of each vector (−1: in a cluster too small to count), and a note on the count."""
    constants = profile.clustering
    for cosine in (constants.precut_cosine, *FINER_CUTS):
        groups = _precluster(vectors, cosine)
        if groups.max() + 1 >= bounds[0]:
            break
    else:
        groups = np.arange(len(vectors))
    evidence = Evidence.of_groups(vectors, speech, window, groups, share, constants)
    merged, large = merge_clusters(evidence, constants, bounds)
    note = ""
    if len(large) < bounds[0]:
        note = f"only {len(large)} stretches of clean speech to tell speakers apart by"
    return _relabel(merged, large)[groups], note


def _relabel(merged: Ints, large: Ints) -> Ints:
    """Label of each group: position of its cluster among the large ones, or −1."""
    position = {int(index): label for label, index in enumerate(large)}
    return np.array([position.get(int(index), -1) for index in merged])


def _precluster(vectors: Floats, cosine: float) -> Ints:
    """Groups of surely alike vectors: average linkage in blocks of rows, cut at ``cosine``."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    groups = np.zeros(len(vectors), np.intp)
    count = 0
    for start in range(0, len(vectors), PRECLUSTER_ROWS):
        part = vectors[start : start + PRECLUSTER_ROWS]
        if len(part) > 1:
            tree = linkage(pdist(part, "cosine"), "average")
            labels = fcluster(tree, 1 - cosine, "distance")
            _, labels = np.unique(labels, return_inverse=True)
        else:
            labels = np.zeros(len(part), np.intp)
        groups[start : start + len(part)] = labels + count
        count += labels.max() + 1
    return groups


def _margins(similarity: Floats, assignment: Ints) -> Floats:
    """Cosine to the own centroid less that to the best other one (less 0 if there is no other)."""
    own = np.take_along_axis(similarity, assignment[:, None], axis=1)[:, 0]
    others = similarity.copy()
    np.put_along_axis(others, assignment[:, None], -np.inf, axis=1)
    best = others.max(axis=1) if similarity.shape[1] > 1 else np.zeros(len(own))
    return own - best


def unit(vectors: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
