"""From assigned windows to turns: overlap-add of activities, a speaker count per frame, the most active win.

The reconstruction of Bredin, "pyannote.audio 2.1 speaker diarization pipeline", Interspeech 2023, with the
local speakers of a window that were assigned to one speaker united before anything is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diar.clustering import Clustering, LocalSpeakers
from diar.powerset import LOG_ODDS_STEPS, MOST_LOG_ODDS, class_members
from diar.result import Speaker
from diar.spans import Geometry
from diar.turns import Turn, speaker_label

CHUNK_FRAMES = 100_000  # frames ranked at once: bounds the memory of long recordings
LEAST_SAMPLES = 32  # 2 ms: two times less than 1 ms apart may be printed as the same
MARGIN_SCALE = 0.1  # cosine margin at which confidence is 0.73


@dataclass(frozen=True)
class Stitched:
    """Turns of a recording. order: (speaker,) the cluster of each speaker, by first appearance."""

    turns: tuple[Turn, ...]
    exclusive_turns: tuple[Turn, ...]
    speakers: tuple[Speaker, ...]
    order: npt.NDArray[np.intp]


@dataclass(frozen=True)
class _Votes:
    """Sums over the windows that hold a frame.

    votes: (frame, cluster) uint16 windows in which the cluster is active. log_odds: (frame, cluster) uint32,
    how sure the windows are of it, in steps (``local_log_odds``). margin: (frame, cluster) float32, margins
    of the votes added up. active: (frame,) distinct clusters, added up. windows: (frame,) how many windows.
    """

    votes: npt.NDArray[np.uint16]
    log_odds: npt.NDArray[np.uint32]
    margin: npt.NDArray[np.float32]
    active: npt.NDArray[np.uint32]
    windows: npt.NDArray[np.uint32]


def stitch(
    classes: npt.NDArray[np.uint8],
    rows: LocalSpeakers,
    log_odds: npt.NDArray[np.uint8],
    clustering: Clustering,
    num_samples: int,
    geometry: Geometry,
) -> Stitched:
    """Turns of the whole recording, clamped to it.

    classes: (window, frame) uint8 powerset classes. log_odds: (row, frame) uint8, see
    ``local_log_odds``; only confidences hang on them. rows, log_odds, clustering: the same rows in the same
    order.
    """
    votes = _add_up(classes, rows, log_odds, clustering, geometry)
    edges = _frame_edges(len(votes.windows), num_samples, geometry)
    active = _most_active(votes) & (np.diff(edges) >= LEAST_SAMPLES)[:, None]
    exclusive = _exclusive(active, votes.votes)
    seen = active.any(axis=0)
    first = np.where(seen, active.argmax(axis=0), len(active))
    order = np.argsort(first, kind="stable")[: int(seen.sum())]
    turns = _turns(active, votes, order, edges)
    labels = [speaker_label(index) for index in range(len(order))]
    speakers = [_speaker(label, [turn for turn in turns if turn.speaker == label]) for label in labels]
    return Stitched(
        turns=tuple(turns),
        exclusive_turns=tuple(_turns(exclusive, votes, order, edges)),
        speakers=tuple(speakers),
        order=order,
    )


def _add_up(
    classes: npt.NDArray[np.uint8],
    rows: LocalSpeakers,
    log_odds: npt.NDArray[np.uint8],
    clustering: Clustering,
    geometry: Geometry,
) -> _Votes:
    num_frames = geometry.first_frame(len(classes) - 1) + geometry.frames
    shape = (num_frames, len(clustering.centroids))
    votes = _Votes(
        np.zeros(shape, np.uint16),
        np.zeros(shape, np.uint32),
        np.zeros(shape, np.float32),
        np.zeros(num_frames, np.uint32),
        np.zeros(num_frames, np.uint32),
    )
    members = class_members(geometry)
    bounds = np.searchsorted(rows.window, np.arange(len(classes) + 1))
    for window, window_classes in enumerate(classes):
        start = geometry.first_frame(window)
        frames = slice(start, start + geometry.frames)
        votes.windows[frames] += 1
        counted: dict[int, npt.NDArray[np.bool_]] = {}
        surest: dict[int, npt.NDArray[np.uint8]] = {}
        for row in range(bounds[window], bounds[window + 1]):
            cluster = int(clustering.assignment[row])
            surest[cluster] = np.maximum(surest.get(cluster, 0), log_odds[row])
            before = counted.setdefault(cluster, np.zeros(geometry.frames, bool))
            activity = members[window_classes, rows.slot[row]] & ~before  # united: a frame counts once
            before |= activity
            votes.margin[frames, cluster] += activity * np.float32(clustering.margin[row])
            votes.votes[frames, cluster] += activity
            votes.active[frames] += activity
        for cluster, sure in surest.items():
            votes.log_odds[frames, cluster] += sure
    return votes


def _most_active(votes: _Votes) -> npt.NDArray[np.bool_]:
    """Which clusters speak in each frame: as many as the windows count on average, those with most votes.

    Ties go to the lower cluster. Returns (frame, cluster) bool.
    """
    active = np.zeros(votes.votes.shape, bool)
    count = np.rint(votes.active / np.maximum(votes.windows, 1)).astype(np.intp)
    for start in range(0, len(active), CHUNK_FRAMES):
        part = votes.votes[start : start + CHUNK_FRAMES]
        ranking = np.argsort(-part.astype(np.int32), axis=1, kind="stable")
        for rank in range(min(part.shape[1], int(count.max(initial=0)))):
            frames = np.flatnonzero(count[start : start + CHUNK_FRAMES] > rank)
            active[start + frames, ranking[frames, rank]] = True
    return active & (votes.votes > 0)


def _exclusive(active: npt.NDArray[np.bool_], votes: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Of the clusters that speak in a frame only the one with most votes; ties go to the lower cluster."""
    exclusive = np.zeros_like(active)
    speech = np.flatnonzero(active.any(axis=1))
    best = np.where(active[speech], votes[speech], 0).argmax(axis=1) if len(speech) else speech
    exclusive[speech, best] = True
    return exclusive


def _frame_edges(num_frames: int, num_samples: int, geometry: Geometry) -> npt.NDArray[np.intp]:
    """(num_frames + 1,) samples at which a change at each frame is heard; the ends are the recording's.

    As in pyannote.audio a turn goes from the centre of its first frame to that of the first frame after it.
    A last frame of less than LEAST_SAMPLES goes to the frame before it.
    """
    edges = geometry.frame_field // 2 + np.arange(num_frames + 1) * geometry.frame_step
    edges[edges > num_samples - LEAST_SAMPLES] = num_samples
    edges[0], edges[-1] = 0, num_samples
    return edges


def _turns(
    active: npt.NDArray[np.bool_],
    votes: _Votes,
    order: npt.NDArray[np.intp],
    edges: npt.NDArray[np.intp],
) -> list[Turn]:
    """Runs of active frames as turns, in order of their start, then of the speakers' first appearance."""
    turns = []
    for index, cluster in enumerate(order):
        for start, end in runs(active[:, cluster]):
            confidence = _confidence(votes, slice(start, end), int(cluster))
            turns.append(Turn(int(edges[start]), int(edges[end]), speaker_label(index), confidence))
    return sorted(turns, key=lambda turn: turn.start)


def _confidence(votes: _Votes, frames: slice, cluster: int) -> float:
    """How sure a turn is: that of its frames on average, times the mean margin as 0 to 1.

    A frame's is the mean of the windows' log-odds as a probability; a window in which the speaker is nowhere
    adds the least.
    """
    sure = votes.log_odds[frames, cluster] / (LOG_ODDS_STEPS * votes.windows[frames]) - MOST_LOG_ODDS
    agreeing = votes.votes[frames, cluster].sum(dtype=np.float64)
    margin = votes.margin[frames, cluster].sum(dtype=np.float64) / agreeing
    return float(_logistic(sure).mean() * _logistic(margin / MARGIN_SCALE))


def _logistic(log_odds: Any) -> Any:
    return 1 / (1 + np.exp(-log_odds))


def runs(active: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Half-open runs of True.

    >>> list(runs(np.array([True, True, False, True])))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(active.astype(np.int8), prepend=0, append=0))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _speaker(label: str, turns: list[Turn]) -> Speaker:
    """A speaker's sums over its turns: samples of speech, confidence weighed by it."""
    speech = sum(turn.end - turn.start for turn in turns)
    confidence = sum(turn.confidence * (turn.end - turn.start) for turn in turns) / speech
    return Speaker(label, speech, confidence)
