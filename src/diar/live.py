"""The live view of a recording that goes on: who speaks now, and what will not change any more.

Windows of the latest sound are looked at one by one, and their local speakers assigned to speakers at once
(``diar.online``). Windows overlap, and each one votes on the frames that it holds, as in ``diar.stitch``; a
frame that is older than the latency is committed: the votes on it are counted and it never changes again.
Coria et al., "Overlap-aware low-latency online speaker diarization", ASRU 2021, describe such a scheme.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from diar.clustering import unit
from diar.online import OnlineSpeakers
from diar.pipeline import BlockResult
from diar.powerset import decode_classes, expand_classes
from diar.profile import Profile
from diar.result import SCHEMA, turn_document
from diar.stitch import runs
from diar.stream_options import StreamOptions
from diar.turns import Turn, seconds, speaker_label

MAX_SPEAKERS = 20  # told apart, unless the caller knows how many there are
MAX_WINDOWS = 64  # looked at at once: who sends more sound than they cover sees a gap
EDGE_FRAMES = 120  # 2 s: the newest frames of a window are heard without what follows, and count less


@dataclass(frozen=True)
class LiveUpdate:
    """The live view after ``num_samples`` samples; all counts are samples.

    committed: what has become final since the last update, up to ``committed_to``; a turn that goes on from
    there begins there in the next one. tentative: from there on, to be replaced by the next update.
    """

    num_samples: int
    committed_to: int
    committed: tuple[Turn, ...]
    tentative: tuple[Turn, ...]

    def document(self) -> dict[str, Any]:
        """The RESULT document of a recording that goes on; seconds, with 3 decimals."""
        return {
            "schema": SCHEMA,
            "position": seconds(self.num_samples),
            "final": False,
            "committed": [turn_document(turn) for turn in self.committed],
            "tentative": [turn_document(turn) for turn in self.tentative],
            "latency": seconds(self.num_samples - self.committed_to),
        }

    def to_json(self) -> bytes:
        """The RESULT document as UTF-8 JSON."""
        return msgspec.json.encode(self.document())


class Unconfirmed:
    """Committed turns that may not have reached the caller: an answer can be lost on its way.

    A piece that begins at ``first_sample`` shows that the answers up to there have come.

    >>> turn, unconfirmed = Turn(0, 8, "SPEAKER_00"), Unconfirmed()
    >>> unconfirmed.complete(LiveUpdate(10, 8, (turn,), ()), 0).committed == (turn,)
    True
    >>> unconfirmed.complete(LiveUpdate(10, 8, (), ()), 0).committed == (turn,)
    True
    >>> unconfirmed.complete(LiveUpdate(20, 8, (), ()), 10).committed
    ()
    """

    def __init__(self) -> None:
        self._turns: list[tuple[int, tuple[Turn, ...]]] = []  # by the samples of their update

    def complete(self, update: LiveUpdate, first_sample: int | None) -> LiveUpdate:
        """The update with the committed turns that were lost. first_sample: of the piece, if it says so."""
        if first_sample is None:
            first_sample = update.num_samples
        self._turns = [(known, turns) for known, turns in self._turns if known > first_sample]
        if update.committed:
            self._turns.append((update.num_samples, update.committed))
        return replace(update, committed=tuple(turn for _, turns in self._turns for turn in turns))


@dataclass(frozen=True)
class LiveSpan:
    """Samples [start, end) to run the networks on; the start may lie before the recording's."""

    start: int
    end: int
    num_windows: int


class LiveView:
    """See above. options: latency, step, and the greatest number of speakers."""

    def __init__(self, profile: Profile, options: StreamOptions) -> None:
        self._profile = profile
        self._geometry = profile.geometry
        self._latency = round(options.latency * profile.sample_rate)
        self._step = round(options.step * profile.sample_rate)
        most = min(options.options.bounds[1] or MAX_SPEAKERS, MAX_SPEAKERS)
        self._speakers = OnlineSpeakers(profile.clustering, profile.embedding.dim, most)
        self._votes = Votes(most)
        self._weights = np.minimum(np.arange(self._geometry.frames, 0, -1) / EDGE_FRAMES, 1.0)
        self._labels: dict[int, str] = {}
        self._seen_to = 0  # sample: the end of the newest window
        self._committed = 0  # frame: the first that is not

    def needed_from(self, num_samples: int) -> int:
        """The first sample that windows to come can hold, once there are ``num_samples``."""
        oldest = max(self._seen_to, num_samples - MAX_WINDOWS * self._geometry.hop)
        return oldest - self._geometry.window

    def due(self, num_samples: int) -> list[LiveSpan]:
        """What to look at now that there are ``num_samples`` samples.

        The newest window ends at a multiple of the step; if more than a hop came at once, others end a hop
        before the next one.
        """
        geometry = self._geometry
        newest = num_samples // self._step * self._step
        windows = min(-(-(newest - self._seen_to) // geometry.hop), MAX_WINDOWS)
        spans = []
        for first in range(0, windows, geometry.windows_per_block):
            size = min(geometry.windows_per_block, windows - first)
            end = newest - (windows - first - size) * geometry.hop
            spans.append(LiveSpan(end - geometry.span_samples(size), end, size))
        return spans

    def add(self, span: LiveSpan, result: BlockResult) -> None:
        """Take what the networks say about a span."""
        activity = expand_classes(decode_classes(result.logits), self._geometry)
        pure = result.pure_embeddings.any(axis=-1, keepdims=True)
        vectors = np.where(pure, result.pure_embeddings, result.embeddings).astype(np.float64)
        for window in range(span.num_windows):
            end = span.end - (span.num_windows - 1 - window) * self._geometry.hop
            self._add_window(end, activity[window], vectors[window], result.speech[window])

    def update(self, num_samples: int) -> LiveUpdate:
        """The view as it is, and what of it has become final since the last time."""
        begin, newest = self._committed, self._votes.end
        behind = self._seen_to - self._latency - self._geometry.frame_field // 2
        self._committed = min(max(begin, behind // self._geometry.frame_step), newest)
        committed = self._turns(begin, self._committed, num_samples)
        tentative = self._turns(self._committed, newest, num_samples)
        self._votes.forget(self._committed)
        return LiveUpdate(
            num_samples, self._edge(self._committed, num_samples), tuple(committed), tuple(tentative)
        )

    def _add_window(
        self,
        end: int,
        activity: npt.NDArray[np.bool_],
        vectors: npt.NDArray[np.float64],
        speech: npt.NDArray[np.float32],
    ) -> None:
        """activity: (frame, local_speaker). vectors: (local_speaker, dim). speech: (local_speaker,)."""
        geometry = self._geometry
        start = end - geometry.window
        first = (start + geometry.frame_step // 2) // geometry.frame_step
        before = max(0, -first)  # frames before the recording's start
        activity, weights, first = activity[before:], self._weights[before:], first + before
        rows = np.flatnonzero(activity.any(axis=0))
        active = activity[:, rows].T.astype(np.float64)  # (row, frame)
        share = (end - max(self._seen_to, start)) / geometry.window
        self._seen_to = end
        to_come = (before + np.arange(len(weights))) / geometry.frames  # of the windows that hold each frame
        recent = active @ to_come / active.sum(axis=1)
        chosen = self._speakers.assign(unit(vectors[rows]), speech[rows].astype(np.float64), share, recent)
        self._votes.add(first, active, chosen, weights)

    def _turns(self, begin: int, end: int, num_samples: int) -> list[Turn]:
        """Turns inside frames [begin, end), in order of their start."""
        active, confidence = self._votes.decide(begin, end)
        turns = []
        for speaker in np.flatnonzero(active.any(axis=0)):
            for first, last in runs(active[:, speaker]):
                start, stop = (self._edge(begin + frame, num_samples) for frame in (first, last))
                if start < stop:
                    certainty = float(confidence[first:last, speaker].mean())
                    turns.append(Turn(start, stop, str(speaker), certainty))
        turns.sort()
        return [Turn(t.start, t.end, self._label(int(t.speaker)), t.confidence) for t in turns]

    def _label(self, speaker: int) -> str:
        """Speakers are named in the order in which the view shows them first."""
        return self._labels.setdefault(speaker, speaker_label(len(self._labels)))

    def _edge(self, frame: int, num_samples: int) -> int:
        """The sample at which a change at a frame is heard, as in ``diar.stitch``."""
        if frame == 0:
            return 0
        return min(frame * self._geometry.frame_step + self._geometry.frame_field // 2, num_samples)


class Votes:
    """What the windows say about frames, on the recording's own grid; old frames can be forgotten.

    For each frame: votes (frame, speaker), how many speakers each window counts, added up (frame,), and the
    windows (frame,), all weighed.
    """

    def __init__(self, most: int) -> None:
        self._first = 0  # the first frame that is kept
        self._votes = np.zeros((0, most))
        self._counts = np.zeros(0)
        self._windows = np.zeros(0)

    @property
    def end(self) -> int:
        """The frame behind the newest one."""
        return self._first + len(self._windows)

    def add(
        self,
        first: int,
        active: npt.NDArray[np.float64],
        speakers: npt.NDArray[np.intp],
        weights: npt.NDArray[np.float64],
    ) -> None:
        """A window votes. active: (row, frame). speakers: (row,). weights: (frame,)."""
        self._grow(first + len(weights))
        skipped = max(0, self._first - first)
        frames = slice(first + skipped - self._first, first + len(weights) - self._first)
        weights = weights[skipped:]
        self._windows[frames] += weights
        for speaker in np.unique(speakers):
            voiced = active[speakers == speaker, skipped:].max(axis=0) * weights
            self._votes[frames, speaker] += voiced
            self._counts[frames] += voiced

    def decide(self, begin: int, end: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        """Who speaks in frames [begin, end), and how sure that is: (frame, speaker) bool, and 0 to 1.

        As many speakers as the windows count on average, those with most votes; ties go to the earlier one.
        """
        part = slice(begin - self._first, end - self._first)
        votes, windows = self._votes[part], np.maximum(self._windows[part], 1e-9)
        counts = np.rint(self._counts[part] / windows).astype(np.intp)
        rank = np.argsort(np.argsort(-votes, axis=1, kind="stable"), axis=1)
        return (rank < counts[:, None]) & (votes > 0), votes / windows[:, None]

    def forget(self, before: int) -> None:
        """Give up the frames before ``before``."""
        count = max(0, before - self._first)
        self._votes, self._counts = self._votes[count:].copy(), self._counts[count:].copy()
        self._windows = self._windows[count:].copy()
        self._first += count

    def _grow(self, end: int) -> None:
        missing = max(0, end - self.end)
        self._votes = np.concatenate([self._votes, np.zeros((missing, self._votes.shape[1]))])
        self._counts = np.concatenate([self._counts, np.zeros(missing)])
        self._windows = np.concatenate([self._windows, np.zeros(missing)])
