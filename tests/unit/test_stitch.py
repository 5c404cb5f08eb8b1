"""Stitching: the vote of windows, ties, clamping, labels; against a frame-by-frame evaluation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diar.clustering import Clustering, LocalSpeakers
from diar.powerset import LOG_ODDS_STEPS, MOST_LOG_ODDS, expand_classes, powerset_classes
from diar.spans import Geometry
from diar.stitch import MARGIN_SCALE, stitch
from diar.turns import seconds

GEOMETRY = Geometry(1_000, 200, 4, 9, 100, 199, 3, 2)  # frame i of a window: centre at 99 + 100 i
CLASS = {members: klass for klass, members in enumerate(powerset_classes(3, 2))}


def rows_of(classes, geometry):
    """A row for each active local speaker, without embeddings."""
    activity = expand_classes(classes, geometry)
    shape = (len(classes), geometry.local_speakers)
    vectors = np.zeros((*shape, 4), np.float32)
    return LocalSpeakers.of_block(0, activity, vectors, vectors, np.ones(shape, np.float32))


def steps(log_odds):
    """Log-odds as the byte that stands for them."""
    return np.rint((np.asarray(log_odds) + MOST_LOG_ODDS) * LOG_ODDS_STEPS).astype(np.uint8)


def logistic(log_odds):
    return 1 / (1 + np.exp(-np.asarray(log_odds, float)))


def stitched(
    classes, clusters, num_samples, *, num_clusters=None, margin=None, sure=MOST_LOG_ODDS, geometry=GEOMETRY
):
    """clusters: (window, local_speaker) the cluster of each. sure: log-odds, of (row, frame) or of all."""
    rows = rows_of(classes, geometry)
    log_odds = np.broadcast_to(steps(sure), (len(rows.window), geometry.frames))
    assignment = np.asarray(clusters)[rows.window, rows.slot]
    count = assignment.max(initial=-1) + 1 if num_clusters is None else num_clusters
    margin = np.zeros(len(rows.window)) if margin is None else margin
    clustering = Clustering(np.eye(count, 4), assignment, margin)
    return stitch(classes, rows, log_odds, clustering, num_samples, geometry)


def windows(*lines):
    """Classes of windows: a line is a window, a word the local speakers of a frame (``-``: none)."""
    return np.array(
        [[CLASS[tuple(int(s) for s in word if s != "-")] for word in line.split()] for line in lines],
        np.uint8,
    )


def spans(turns):
    return [(turn.start, turn.end, turn.speaker) for turn in turns]


def frame_by_frame(classes, clusters, num_samples, geometry):
    """(frame, cluster) bool, as docs/clustering.md says it, and (start, end) of each frame."""
    activity = expand_classes(classes, geometry)
    first = [round((w * geometry.hop) / geometry.frame_step) for w in range(len(classes))]
    num_frames = first[-1] + geometry.frames
    active, heard = [], []
    for frame in range(num_frames):
        seen = [
            {int(clusters[w][s]) for s in np.flatnonzero(activity[w, frame - start])}
            for w, start in enumerate(first)
            if 0 <= frame - start < geometry.frames
        ]
        votes = [sum(cluster in window for window in seen) for cluster in range(4)]
        count = round(sum(len(window) for window in seen) / len(seen))
        winners = sorted(range(4), key=lambda c: (-votes[c], c))[:count]
        active.append([c in winners and votes[c] > 0 for c in range(4)])
        centre = geometry.frame_field // 2 + frame * geometry.frame_step
        heard.append(
            (
                0 if frame == 0 else centre,
                num_samples if frame == num_frames - 1 else centre + geometry.frame_step,
            )
        )
    return np.array(active), heard


@st.composite
def conversations(draw):
    num_windows = draw(st.integers(1, 5))
    shape = (num_windows, GEOMETRY.frames)
    classes = draw(st.lists(st.integers(0, 6), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    clusters = draw(st.lists(st.integers(0, 3), min_size=num_windows * 3, max_size=num_windows * 3))
    low = GEOMETRY.span_samples(num_windows) - GEOMETRY.hop + 1 if num_windows > 1 else 1
    num_samples = draw(st.integers(low, GEOMETRY.span_samples(num_windows)))
    return np.array(classes, np.uint8).reshape(shape), np.array(clusters).reshape(-1, 3), num_samples


@given(conversations())
def test_turns_are_those_of_the_frames(conversation):
    classes, clusters, num_samples = conversation
    result = stitched(classes, clusters, num_samples, num_clusters=4)
    active, heard = frame_by_frame(classes, clusters, num_samples, GEOMETRY)
    names = {f"SPEAKER_{i:02d}": cluster for i, cluster in enumerate(result.order)}
    sample = np.zeros((num_samples, 4), bool)
    for turn in result.turns:
        assert not sample[turn.start : turn.end, names[turn.speaker]].any()  # turns of one speaker are apart
        sample[turn.start : turn.end, names[turn.speaker]] = True
    for frame, (start, end) in enumerate(heard):
        if end <= num_samples - 32:  # the end is another test's
            np.testing.assert_array_equal(sample[start], active[frame])
            np.testing.assert_array_equal(sample[end - 1], active[frame])


@given(conversations())
def test_what_holds_for_every_result(conversation):
    classes, clusters, num_samples = conversation
    result = stitched(classes, clusters, num_samples, num_clusters=4)
    for turns in (result.turns, result.exclusive_turns):
        assert list(turns) == sorted(turns, key=lambda turn: (turn.start, turn.speaker))
        assert all(0 <= turn.start < turn.end <= num_samples for turn in turns)
        assert all(seconds(turn.start) < seconds(turn.end) for turn in turns)  # RESULT can be read back
        assert all(0 < turn.confidence < 1 for turn in turns)
    for one, two in zip(result.exclusive_turns, result.exclusive_turns[1:], strict=False):
        assert one.end <= two.start
    for turn in result.exclusive_turns:
        assert any(
            whole.speaker == turn.speaker and whole.start <= turn.start and turn.end <= whole.end
            for whole in result.turns
        )
    somebody, exclusive = np.zeros(num_samples, bool), np.zeros(num_samples, bool)
    for turns, mask in ((result.turns, somebody), (result.exclusive_turns, exclusive)):
        for turn in turns:
            mask[turn.start : turn.end] = True
    np.testing.assert_array_equal(somebody, exclusive)
    appearance = list(dict.fromkeys(turn.speaker for turn in result.turns))
    assert appearance == [speaker.label for speaker in result.speakers]
    assert appearance == [f"SPEAKER_{i:02d}" for i in range(len(result.order))]
    for speaker in result.speakers:
        own = [turn for turn in result.turns if turn.speaker == speaker.label]
        assert speaker.speech == sum(turn.end - turn.start for turn in own)
        assert min(t.confidence for t in own) <= speaker.confidence + 1e-9
        assert speaker.confidence <= max(t.confidence for t in own) + 1e-9


def test_a_turn_goes_from_centre_to_centre():
    classes = windows("- - 0 0 0 - - 01 1")
    assert spans(stitched(classes, [[0, 1, 2]], 1_000).turns) == [
        (299, 599, "SPEAKER_00"),
        (799, 899, "SPEAKER_00"),
        (799, 1_000, "SPEAKER_01"),  # the last frame lasts to the end of the recording
    ]


def test_the_first_frame_begins_with_the_recording():
    assert spans(stitched(windows("0 0 - - - - - - -"), [[0, 1, 2]], 1_000).turns) == [(0, 299, "SPEAKER_00")]


@pytest.mark.parametrize(
    ("num_samples", "ends"),
    [
        pytest.param(1_000, [1_000], id="to-the-end"),
        pytest.param(500, [500], id="within-the-turn"),
        pytest.param(331, [331], id="barely-long-enough"),
        pytest.param(300, [], id="a-sample-of-a-turn"),
        pytest.param(299, [], id="nothing-of-it"),
        pytest.param(1, [], id="one-sample"),
    ],
)
def test_turns_are_clamped_to_the_recording(num_samples, ends):
    result = stitched(windows("- - 0 0 0 0 0 0 0"), [[0, 1, 2]], num_samples)
    assert [turn.end for turn in result.turns] == ends
    assert len(result.speakers) == len(result.order) == len(ends)


@pytest.mark.parametrize("num_samples", [300, 307, 314, 330])
def test_a_turn_reaches_the_end_although_a_sliver_of_a_frame_is_left(num_samples):
    result = stitched(windows("0 0 0 0 0 0 0 0 0"), [[0, 1, 2]], num_samples)
    assert spans(result.turns) == [(0, num_samples, "SPEAKER_00")]


@pytest.mark.parametrize("num_samples", range(1, 12))
def test_speech_in_a_recording_of_a_few_samples_is_a_turn_that_can_be_printed_or_none(num_samples):
    result = stitched(windows("0 0 0 0 0 0 0 0 0"), [[0, 1, 2]], num_samples)
    assert all(seconds(turn.end) > 0 for turn in result.turns)


def test_local_speakers_of_one_cluster_count_once():
    classes = windows("01 01 0 0 1 1 - - -")
    result = stitched(classes, [[2, 2, 0]], 1_000)
    assert spans(result.turns) == [(0, 699, "SPEAKER_00")]
    assert result.order.tolist() == [2]


def test_half_a_speaker_more_is_rounded_to_the_even_count():
    silent, one, two = "- - - - - - - - -", "0 0 0 0 0 0 0 0 0", "01 01 01 01 01 01 01 01 01"
    clusters = [[0, 1, 2]] * 2
    # windows overlap in grid frames 2 to 8; with one of two windows active the mean count is a half
    assert spans(stitched(windows(silent, one), clusters, 1_200).turns) == [(999, 1_200, "SPEAKER_00")]
    # one and two speakers: 1.5 is rounded to 2
    assert spans(stitched(windows(one, two), clusters, 1_200).turns) == [
        (0, 1_200, "SPEAKER_00"),
        (299, 1_200, "SPEAKER_01"),
    ]


def test_equal_votes_go_to_the_lower_cluster():
    one = "0 0 0 0 0 0 0 0 0"
    result = stitched(windows(one, one), [[1, 2, 2], [0, 2, 2]], 1_200)
    # cluster 1 alone in the first frames, cluster 0 in the last ones, and it wins the tie between
    assert result.order.tolist() == [1, 0]
    assert spans(result.turns) == [(0, 299, "SPEAKER_00"), (299, 1_200, "SPEAKER_01")]


def test_the_exclusive_speaker_of_an_overlap_is_the_one_with_most_votes():
    both, second = "01 01 01 01 01 01 01 01 01", "1 1 1 1 1 1 1 1 1"
    result = stitched(windows(both, second, both), [[0, 1, 2]] * 3, 1_400)
    overlap = [turn for turn in result.turns if turn.speaker == "SPEAKER_00"]
    assert spans(overlap)[0][:2] == (0, 1_400)
    assert "SPEAKER_01" in {turn.speaker for turn in result.exclusive_turns}
    in_three_windows = (499 + 899) // 2
    (winner,) = [t for t in result.exclusive_turns if t.start <= in_three_windows < t.end]
    assert winner.speaker == "SPEAKER_01"


def test_a_cluster_that_never_wins_has_no_label_and_no_row():
    silent, second, both = "- - - - - - - - -", "2 2 2 2 2 2 2 2 2", "- - 02 02 2 2 2 2 2"
    result = stitched(windows(second, both, second, silent, silent), [[3, 0, 1]] * 5, 1_800, num_clusters=4)
    assert result.order.tolist() == [1]
    assert [speaker.label for speaker in result.speakers] == ["SPEAKER_00"]


def test_labels_follow_the_first_appearance_and_order_names_the_clusters():
    classes = windows("- - 2 2 - 1 1 0 0")
    result = stitched(classes, [[0, 3, 1]], 1_000, num_clusters=4)
    assert result.order.tolist() == [1, 3, 0]
    assert [turn.speaker for turn in result.turns] == ["SPEAKER_00", "SPEAKER_01", "SPEAKER_02"]


def test_confidence_is_the_mean_margin_through_a_logistic_function():
    classes = windows("0 0 0 0 0 - - 1 1")
    result = stitched(classes, [[0, 1, 2]], 1_000, margin=np.array([MARGIN_SCALE, -0.5]))
    assert [round(turn.confidence, 2) for turn in result.turns] == [0.73, 0.01]
    assert [round(speaker.confidence, 2) for speaker in result.speakers] == [0.73, 0.01]


def test_confidence_is_the_certainty_of_the_frames_on_average():
    sure = np.zeros((1, 9))
    sure[0, 2:5] = 4, 1, -0.5
    result = stitched(windows("- - 0 0 0 - - - -"), [[0, 1, 2]], 1_000, margin=np.full(1, 50.0), sure=sure)
    assert result.turns[0].confidence == pytest.approx(logistic([4, 1, -0.5]).mean(), rel=1e-6)


def test_confidence_falls_with_the_windows_that_do_not_hear_the_speaker():
    heard, missed = "0 0 0 0 0 0 0 0 0", "- - - - - - - - -"
    result = stitched(windows(heard, heard, missed), [[0, 1, 2]] * 3, 1_400, margin=np.full(2, 50.0), sure=5)
    # all windows of frames 0 to 3 hear the speaker, one of 4 to 8 does not; the rest is no turn
    expected = (4 * logistic(5) + 5 * logistic((5 + 5 - MOST_LOG_ODDS) / 3)) / 9
    assert spans(result.turns) == [(0, 999, "SPEAKER_00")]
    assert result.turns[0].confidence == pytest.approx(expected, rel=1e-6)


def test_confidence_of_united_local_speakers_is_that_of_the_surer_one_and_counts_once():
    classes = windows("01 01 01 01 01 01 01 01 01")
    sure = np.stack([np.full(9, 3.0), np.full(9, 1.0)])
    united = stitched(classes, [[0, 0, 1]], 1_000, margin=np.full(2, MARGIN_SCALE), sure=sure)
    assert united.turns[0].confidence == pytest.approx(logistic(3) * logistic(1), rel=1e-6)


def test_only_confidences_hang_on_the_certainty():
    rng = np.random.default_rng(5)
    classes, clusters = rng.integers(0, 7, (12, 9)).astype(np.uint8), rng.integers(0, 4, (12, 3))
    sure, unsure = (stitched(classes, clusters, 3_200, num_clusters=4, sure=odds) for odds in (6, -6))
    assert spans(sure.turns) == spans(unsure.turns)
    assert spans(sure.exclusive_turns) == spans(unsure.exclusive_turns)
    assert all(a.confidence > b.confidence for a, b in zip(sure.turns, unsure.turns, strict=True))


def test_no_speech_is_no_turn():
    result = stitched(windows("- - - - - - - - -"), [[0, 1, 2]], 1_000)
    assert (result.turns, result.exclusive_turns, result.speakers, result.order.tolist()) == ((), (), (), [])


def test_a_long_recording_is_ranked_in_parts_with_the_same_turns(monkeypatch):
    rng = np.random.default_rng(4)
    classes = rng.integers(0, 7, (40, 9)).astype(np.uint8)
    clusters = rng.integers(0, 4, (40, 3))
    whole = stitched(classes, clusters, 8_800, num_clusters=4)
    monkeypatch.setattr("diar.stitch.CHUNK_FRAMES", 7)
    assert stitched(classes, clusters, 8_800, num_clusters=4).turns == whole.turns
