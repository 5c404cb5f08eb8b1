"""The live view against a conversation that is known: windows see it with shuffled speakers and noise."""

from itertools import pairwise

import numpy as np
import pytest

from diar.live import LiveView
from diar.options import Options
from diar.pipeline import BlockResult
from diar.stream_options import StreamOptions

SECOND = 16_000
CONVERSATION = [  # start, end (s), who
    (1.0, 6.0, 0),
    (6.5, 11.0, 1),
    (10.5, 16.0, 0),
    (17.0, 25.0, 2),
    (25.0, 31.0, 1),
    (40.0, 44.0, 0),
]
LENGTH_S = 48


class Room:
    """Answers as the networks would, of windows of the conversation.

    noise: of embeddings. pure_alone: those of two_tier, without the span's.
    """

    def __init__(self, profile, noise=0.4, seed=0, pure_alone=False):
        self._profile, self._noise, self._pure_alone = profile, noise, pure_alone
        self._random = np.random.default_rng(seed)
        voices = np.random.default_rng(7).standard_normal((3, profile.embedding.dim))
        self._voices = voices / np.linalg.norm(voices, axis=1, keepdims=True)

    def __call__(self, span):
        geometry = self._profile.geometry
        windows = [self._window(span.start + index * geometry.hop) for index in range(span.num_windows)]
        logits, vectors, speech = (np.array(part, np.float32) for part in zip(*windows, strict=True))
        both = (np.zeros_like(vectors), vectors) if self._pure_alone else (vectors, np.zeros_like(vectors))
        return BlockResult(logits, both[0], speech, both[1], ("room", "room"))

    def _window(self, start):
        geometry, dim = self._profile.geometry, self._profile.embedding.dim
        centres = start + geometry.frame_field // 2 + np.arange(geometry.frames) * geometry.frame_step
        active = np.zeros((3, geometry.frames), bool)
        slots = self._random.permutation(3)
        vectors = np.zeros((3, dim))
        for begin, end, speaker in CONVERSATION:
            active[slots[speaker]] |= (begin * SECOND <= centres) & (centres < end * SECOND)
            noise = self._random.standard_normal(dim) / np.sqrt(dim) * self._noise
            vectors[slots[speaker]] = self._voices[speaker] + noise
        classes = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
        logits = np.full((geometry.frames, 7), -9.0)
        for frame in range(geometry.frames):
            logits[frame, classes.index(tuple(np.flatnonzero(active[:, frame])))] = 0.0
        alone = active & (active.sum(axis=0) == 1)
        return logits, vectors, alone.sum(axis=1) * geometry.frame_step / SECOND


def watch(profile, options=None, piece_s=0.5, length_s=LENGTH_S, room=None):
    """Updates after each piece."""
    view, room, updates = LiveView(profile, options or StreamOptions()), room or Room(profile), []
    for end in np.arange(piece_s, length_s + 1e-9, piece_s):
        num_samples = round(end * SECOND)
        for span in view.due(num_samples):
            view.add(span, room(span))
        updates.append(view.update(num_samples))
    return updates


def committed(updates):
    return [turn for update in updates for turn in update.committed]


def right_share(turns, until):
    """Share of the first ``until`` samples in which just those speak who are said to, by first appearance."""
    names = {0: "SPEAKER_00", 1: "SPEAKER_01", 2: "SPEAKER_02"}
    points = np.arange(0, until, 160)
    right = np.ones(len(points), bool)
    for speaker, name in names.items():
        said = np.zeros(len(points), bool)
        for turn in turns:
            said |= (turn.speaker == name) & (turn.start <= points) & (points < turn.end)
        spoke = np.zeros(len(points), bool)
        for start, end, who in CONVERSATION:
            spoke |= (who == speaker) & (start * SECOND <= points) & (points < end * SECOND)
        right &= said == spoke
    return right.mean()


@pytest.mark.parametrize(
    ("piece_s", "latency", "least"),
    [
        pytest.param(0.02, 1.0, 0.95, id="tiny-pieces"),
        pytest.param(0.5, 0.5, 0.92, id="a-new-voice-is-not-known-at-once"),
        pytest.param(0.5, 1.0, 0.95, id="a-step-each"),
        pytest.param(0.5, 5.0, 0.99, id="late-and-sure"),
        pytest.param(1.0, 2.0, 0.98, id="a-second-each"),
        pytest.param(3.7, 2.0, 0.98, id="more-than-a-hop"),
        pytest.param(48.0, 0.5, 0.98, id="all-at-once"),
    ],
)
def test_committed_turns_are_the_conversation(profile, piece_s, latency, least):
    updates = watch(profile, StreamOptions(latency=latency), piece_s, 12 if piece_s == 0.02 else LENGTH_S)
    assert right_share(committed(updates), updates[-1].committed_to) >= least


def test_pure_embeddings_do_instead_of_those_of_the_span(two_tier):
    updates = watch(two_tier, room=Room(two_tier, pure_alone=True))
    assert updates == watch(two_tier)


@pytest.mark.parametrize("latency", [0.5, 1.0, 2.0, 5.0])
def test_what_is_committed_lies_behind_by_the_latency_and_follows_on(profile, latency):
    updates = watch(profile, StreamOptions(latency=latency))
    for before, now in pairwise(updates):
        assert before.committed_to <= now.committed_to
        assert all(before.committed_to <= turn.start < turn.end <= now.committed_to for turn in now.committed)
        assert all(now.committed_to <= turn.start < turn.end <= now.num_samples for turn in now.tentative)
    for update in updates:
        behind = update.num_samples - update.committed_to
        assert min(update.num_samples, latency * SECOND) <= behind < latency * SECOND + 300


def test_tentative_turns_show_who_is_speaking_now(profile):
    update = watch(profile, length_s=14)[-1]
    assert [turn.speaker for turn in update.tentative] == ["SPEAKER_00"]
    assert update.tentative[0].end > 13.9 * SECOND
    assert update.tentative[0].confidence > 0.9


def test_speakers_are_no_more_than_allowed(profile):
    updates = watch(profile, StreamOptions(options=Options(max_speakers=2)))
    assert {turn.speaker for turn in committed(updates)} == {"SPEAKER_00", "SPEAKER_01"}


def test_first_moments_are_looked_at_with_silence_before_them(profile):
    view = LiveView(profile, StreamOptions(latency=1.0, step=0.5))
    assert view.due(7_999) == []
    (span,) = view.due(8_000)
    assert (span.start, span.end, span.num_windows) == (8_000 - 160_000, 8_000, 1)


def test_much_at_once_is_looked_at_in_steps_of_a_hop(profile, geometry):
    view, room = LiveView(profile, StreamOptions()), Room(profile)
    for span in view.due(2 * SECOND):
        view.add(span, room(span))
    spans = view.due(62 * SECOND)
    assert [span.num_windows for span in spans] == [32, 28]
    assert all(span.end - span.start == geometry.span_samples(span.num_windows) for span in spans)
    ends = [s.end - (s.num_windows - 1 - w) * geometry.hop for s in spans for w in range(s.num_windows)]
    assert ends == list(range(3 * SECOND, 63 * SECOND, SECOND))


def test_a_view_that_was_blind_for_long_sees_the_latest_only(profile):
    view, room = LiveView(profile, StreamOptions()), Room(profile)
    num_samples = 3600 * SECOND
    spans = view.due(num_samples)
    assert sum(span.num_windows for span in spans) == 64
    assert spans[0].start >= view.needed_from(num_samples)
    for span in spans:
        view.add(span, room(span))
    update = view.update(num_samples)
    assert update.committed_to > 3598 * SECOND
    assert view.due(num_samples) == []


def test_document_has_seconds(profile):
    document = watch(profile, length_s=3)[-1].document()
    assert list(document) == ["schema", "position", "final", "committed", "tentative", "latency"]
    assert (document["schema"], document["position"], document["final"]) == (1, 3.0, False)
    (turn,) = document["committed"]
    assert list(turn) == ["start", "end", "speaker", "confidence"]
    assert turn["end"] == pytest.approx(3.0 - document["latency"], abs=1e-3)
