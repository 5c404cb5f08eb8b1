"""From rows to speakers: which rows are clustered, counts asked for, assignment, margins."""

from itertools import permutations, product

import numpy as np
import pytest

from diar import clustering
from diar.clustering import LocalSpeakers, assign

DIM = 192


def cluster(rows, profile, bounds):
    """Cluster rows whose local speakers take turns in thirds of their windows."""
    thirds = np.repeat([1, 2, 3], 197)[: profile.geometry.frames].astype(np.uint8)
    classes = np.zeros((int(rows.window.max(initial=-1)) + 1, profile.geometry.frames), np.uint8)
    for window, slot in zip(rows.window, rows.slot, strict=True):
        classes[window, thirds == slot + 1] = slot + 1
    return clustering.cluster(rows, classes, profile, bounds)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def rows_of(window, slot, embedding, speech, pure_row=(), pure=None):
    pure = np.zeros((0, DIM)) if pure is None else pure
    return LocalSpeakers(
        np.asarray(window, np.intp),
        np.asarray(slot, np.intp),
        np.asarray(embedding, np.float32),
        np.asarray(speech, np.float32),
        np.asarray(pure_row, np.intp),
        np.asarray(pure, np.float32),
    )


def conversation(seed, num_windows=40, num_voices=4, noise=0.35, voice_seconds=(3.0, 9.0)):
    """Rows of up to three voices per window, and the voice of each."""
    rng = np.random.default_rng(seed)
    voices = unit(rng.normal(size=(num_voices, DIM)))
    heard = [sorted(rng.permutation(num_voices)[: rng.integers(1, 4)].tolist()) for _ in range(num_windows)]
    window = [index for index, speakers in enumerate(heard) for _ in speakers]
    slot = [place for speakers in heard for place in range(len(speakers))]
    voice = np.concatenate(heard).astype(int)
    embedding = 5 * (voices[voice] + noise * unit(rng.normal(size=(len(voice), DIM))))
    speech = rng.uniform(*voice_seconds, len(voice))
    return rows_of(window, slot, embedding, speech), voice


def same_partition(one, two):
    pairs = set(zip(np.asarray(one).tolist(), np.asarray(two).tolist(), strict=True))
    return len(pairs) == len(set(np.asarray(one).tolist())) == len(set(np.asarray(two).tolist()))


def count(clustering):
    return len(clustering.centroids)


@pytest.mark.parametrize("seed", range(5))
def test_voices_become_speakers(seed, profile):
    rows, voice = conversation(seed)
    found = cluster(rows, profile, (1, None))
    assert same_partition(found.assignment, voice)
    assert found.note == ""
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1)


@pytest.mark.parametrize("bounds", [(1, None), (1, 2), (3, 3), (6, 6), (6, None)])
def test_bounds_are_met(bounds, profile):
    rows, _ = conversation(1)
    found = cluster(rows, profile, bounds)
    assert bounds[0] <= count(found) <= (bounds[1] or 99)
    assert found.note == ""
    assert set(found.assignment.tolist()) <= set(range(count(found)))


def test_asking_for_the_count_that_was_found_changes_nothing(profile):
    rows, _ = conversation(2)
    free, exact = cluster(rows, profile, (1, None)), cluster(rows, profile, (4, 4))
    for name in ("centroids", "assignment", "margin"):
        assert getattr(free, name).tobytes() == getattr(exact, name).tobytes()


def test_more_speakers_than_groups_of_alike_voices_are_found_among_the_rows(profile):
    rows, _ = conversation(0, num_windows=6, num_voices=1, noise=0.1)
    assert count(cluster(rows, profile, (1, None))) == 1
    found = cluster(rows, profile, (3, 3))
    assert (count(found), found.note) == (3, "")


def test_more_speakers_than_rows_are_as_many_as_there_are_rows_and_a_note(profile):
    rows, _ = conversation(0, num_windows=2, num_voices=1)
    found = cluster(rows, profile, (5, 5))
    assert count(found) == len(rows.window) == 2
    assert found.note == "only 2 stretches of clean speech to tell speakers apart by"


def test_of_two_speakers_asked_for_the_short_one_is_kept(profile):
    vectors = unit(np.eye(2, DIM) + 0.6)  # too alike for so little speech
    rows = rows_of([0, 1], [0, 0], vectors, [30.0, 2.0])
    assert count(cluster(rows, profile, (1, None))) == 1
    found = cluster(rows, profile, (2, 2))
    assert (count(found), found.note) == (2, "")
    assert found.assignment.tolist() == [0, 1]


def test_no_row_is_no_speaker(profile):
    rows = rows_of([], [], np.zeros((0, DIM)), [])
    for bounds in [(1, None), (3, 3)]:
        found = cluster(rows, profile, bounds)
        assert found.centroids.shape == (0, DIM)
        assert (len(found.assignment), len(found.margin)) == (0, 0)
        assert found.note == "there is no speech"


@pytest.mark.parametrize("speech", [0.0, 0.02, 0.7, 9.0])
def test_one_row_is_one_speaker_however_short(speech, profile):
    embedding = np.ones((1, DIM))
    found = cluster(rows_of([3], [1], embedding, [speech]), profile, (1, None))
    np.testing.assert_allclose(found.centroids, unit(embedding))
    assert found.assignment.tolist() == [0]
    np.testing.assert_allclose(found.margin, 1)


@pytest.mark.parametrize("speech", [(0.0, 0.0), (0.0, 4.0), (4.0, 4.0)])
@pytest.mark.parametrize("bounds", [(1, None), (2, 2)])
def test_rows_without_an_embedding_are_no_failure(speech, bounds, profile):
    silent = cluster(rows_of([0, 0], [0, 1], np.zeros((2, DIM)), speech), profile, bounds)
    assert np.isfinite(silent.centroids).all()
    assert np.isfinite(silent.margin).all()
    assert set(silent.assignment.tolist()) <= set(range(count(silent)))


def test_a_row_without_an_embedding_does_not_found_a_speaker(profile):
    embedding = np.zeros((3, DIM))
    embedding[1, 0] = 1.0
    found = cluster(rows_of([0, 1, 2], [0, 0, 0], embedding, [0.0, 0.9, 0.0]), profile, (1, None))
    assert found.centroids.shape == (1, DIM)
    assert found.centroids[0, 0] == 1.0


def test_long_speech_of_half_alike_voices_is_kept_apart(profile):
    one, two = np.eye(2, DIM)
    vectors = np.array([one, unit(one + np.sqrt(3) * two)] * 6)  # their cosine is a half
    windows = np.arange(12)
    found = cluster(rows_of(windows, 0 * windows, vectors, 9.0 + 0 * windows), profile, (1, None))
    assert found.assignment.tolist() == [0, 1] * 6


def test_rows_with_little_clean_speech_are_assigned_but_not_clustered(profile):
    vectors = np.eye(3, DIM)
    rows = rows_of(
        [0, 1, 2, 3], [0] * 4, [vectors[0], vectors[1], vectors[2], vectors[0]], [9.0, 9.0, 0.9, 0.1]
    )
    found = cluster(rows, profile, (1, None))
    np.testing.assert_allclose(np.abs(found.centroids), vectors[:2])
    assert found.assignment[[0, 1, 3]].tolist() == [0, 1, 0]


def test_the_centroid_is_the_mean_weighed_by_clean_speech(profile):
    one, two = np.eye(2, DIM)
    alike = unit(one + 0.2 * two)
    found = cluster(rows_of([0, 5], [0, 0], [7 * one, alike], [8.0, 2.0]), profile, (1, None))
    np.testing.assert_allclose(found.centroids[0], unit(8.0 * one + 2.0 * alike), atol=1e-7)


def test_clusters_under_the_least_seconds_give_their_rows_away(profile):
    vectors = np.eye(2, DIM)
    for speech, expected in [(3.5, 1), (4.5, 2)]:  # a tenth of it is the row's own: 0.35 s, 0.45 s
        rows = rows_of([20, 40, 60], [0, 0, 0], vectors[[0, 1, 0]], [9.0, speech, 9.0])
        assert count(cluster(rows, profile, (1, None))) == expected


def test_the_pure_rows_are_clustered_and_all_rows_assigned(two_tier):
    vectors = np.eye(2, DIM)
    blurred = unit(vectors + 0.7 * vectors[::-1])
    embedding = np.concatenate([blurred, blurred])
    rows = rows_of([0, 0, 1, 1], [0, 1, 0, 1], embedding, [6.0, 6.0, 5.0, 5.0], [0, 1], vectors)
    found = cluster(rows, two_tier, (1, None))
    np.testing.assert_allclose(found.centroids, vectors)
    assert found.assignment.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("num_windows", "pure", "window", "share"),
    [
        pytest.param(1, False, 0, 1.0, id="the-only-window-holds-all-its-speech"),
        pytest.param(60, False, 30, 0.1, id="ten-windows-hold-every-second"),
        pytest.param(64, True, 33, 0.3, id="every-third-window-is-clustered"),
        pytest.param(60, False, 0, sum(1 / n for n in range(1, 11)) / 10, id="fewer-windows-at-the-edge"),
    ],
)
def test_speech_in_several_windows_is_shared_between_them(num_windows, pure, window, share, two_tier):
    classes = np.ones((num_windows, two_tier.geometry.frames), np.uint8)  # local speaker 0, all the time
    windows, vectors = np.arange(num_windows), np.ones((num_windows, DIM))
    rows = rows_of(
        windows, 0 * windows, vectors, 9.0 + 0 * windows, windows[: int(pure)], vectors[: int(pure)]
    )
    found = clustering._shares(rows, np.array([window]), classes, two_tier)
    np.testing.assert_allclose(found, share, atol=0.04)


def test_rows_without_any_pure_row_are_clustered_as_they_are(profile):
    rows, voice = conversation(3)
    assert same_partition(cluster(rows, profile, (1, None)).assignment, voice)


def test_blocks_of_rows_are_joined_by_the_merging(monkeypatch, profile):
    rows, voice = conversation(4, num_windows=60)
    monkeypatch.setattr("diar.clustering.PRECLUSTER_ROWS", 7)
    assert same_partition(cluster(rows, profile, (1, None)).assignment, voice)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_slots_in_a_window_does_not_matter(seed, profile):
    rows, _ = conversation(seed, noise=0.9)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(rows.window)), rows.window))
    shuffled = rows_of(rows.window, rows.slot, rows.embedding[order], rows.speech[order])
    found = cluster(rows, profile, (1, None)).assignment
    assert same_partition(cluster(shuffled, profile, (1, None)).assignment, found[order])


def test_the_same_rows_give_the_same_bytes(profile):
    rows, _ = conversation(5, noise=0.9)
    one, two = (cluster(rows, profile, (1, None)) for _ in range(2))
    assert one.centroids.tobytes() == two.centroids.tobytes()
    assert one.assignment.tobytes() == two.assignment.tobytes()


def test_loudness_of_an_embedding_does_not_matter(profile):
    rows, _ = conversation(6)
    louder = rows_of(rows.window, rows.slot, rows.embedding * 1_000, rows.speech)
    one, two = cluster(rows, profile, (1, None)), cluster(louder, profile, (1, None))
    np.testing.assert_array_equal(one.assignment, two.assignment)
    np.testing.assert_allclose(one.centroids, two.centroids, atol=1e-6)


def test_margins_are_the_distance_to_the_next_centroid(profile):
    rows, _ = conversation(7)
    found = cluster(rows, profile, (1, None))
    for row, (own, margin) in enumerate(zip(found.assignment, found.margin, strict=True)):
        similarity = unit(rows.embedding[row].astype(float)) @ found.centroids.T
        assert margin == pytest.approx(similarity[own] - max(np.delete(similarity, own)))


def best_by_trying(similarity, delta):
    """All assignments of a window's rows, the n-th row in a cluster at n delta less."""
    size, clusters = similarity.shape

    def value(choice):
        shared = sum(n * (n - 1) / 2 for n in (choice.count(c) for c in range(clusters)))
        return sum(similarity[row, c] for row, c in enumerate(choice)) - delta * shared

    return max(product(range(clusters), repeat=size), key=value)


@pytest.mark.parametrize("delta", [0.0, 0.05, 0.1, 0.5, 10.0])
@pytest.mark.parametrize("clusters", [1, 2, 3, 5])
def test_assignment_is_the_best_of_all(clusters, delta):
    rng = np.random.default_rng(clusters)
    window = np.repeat(np.arange(12), rng.integers(1, 4, 12))
    similarity = rng.uniform(-0.2, 1, (len(window), clusters))
    assignment = assign(similarity, window, delta)
    for index in range(12):
        rows = window == index
        assert tuple(assignment[rows]) == best_by_trying(similarity[rows], delta)


def test_without_delta_each_row_takes_its_nearest():
    similarity = np.random.default_rng(1).uniform(-1, 1, (30, 4))
    np.testing.assert_array_equal(assign(similarity, np.repeat(np.arange(10), 3), 0.0), similarity.argmax(1))


def test_with_a_huge_delta_no_two_rows_of_a_window_share():
    similarity = np.random.default_rng(2).uniform(-1, 1, (3, 4))
    best = max(permutations(range(4), 3), key=lambda choice: similarity[range(3), choice].sum())
    assert tuple(assign(similarity, np.zeros(3, int), 1e6)) == best


def test_two_rows_share_only_if_the_next_choice_is_more_than_delta_worse():
    for second, expected in [(0.71, [0, 1]), (0.69, [0, 0])]:
        similarity = np.array([[0.9, 0.1], [0.8, second]])
        assert assign(similarity, np.zeros(2, int), 0.1).tolist() == expected


def test_rows_of_a_block_are_its_active_local_speakers():
    activity = np.zeros((3, 4, 3), bool)
    activity[0, 1, 2] = activity[2, :, 0] = activity[2, 3, 1] = True
    embeddings = np.arange(3 * 3 * 2, dtype=np.float32).reshape(3, 3, 2)
    pure = np.zeros_like(embeddings)
    pure[2, 1] = 7.0
    speech = np.arange(9, dtype=np.float32).reshape(3, 3)
    rows = LocalSpeakers.of_block(10, activity, embeddings, pure, speech)
    np.testing.assert_array_equal(rows.window, [10, 12, 12])
    np.testing.assert_array_equal(rows.slot, [2, 0, 1])
    np.testing.assert_array_equal(rows.embedding, embeddings[[0, 2, 2], [2, 0, 1]])
    np.testing.assert_array_equal(rows.speech, [2, 6, 7])
    np.testing.assert_array_equal(rows.pure_row, [2])
    np.testing.assert_array_equal(rows.pure, [[7.0, 7.0]])
    embeddings[:] = -1  # the block's arrays are not kept
    assert rows.embedding.min() > 0


def test_rows_of_blocks_are_joined_with_their_pure_rows():
    one = rows_of([0, 1], [0, 0], np.eye(2, DIM), [1, 2], [1], np.full((1, DIM), 3.0))
    none = rows_of([], [], np.zeros((0, DIM)), [])
    two = rows_of([5], [2], np.ones((1, DIM)), [4], [0], np.full((1, DIM), 5.0))
    rows = LocalSpeakers.concatenate([one, none, two])
    np.testing.assert_array_equal(rows.window, [0, 1, 5])
    np.testing.assert_array_equal(rows.pure_row, [1, 2])
    np.testing.assert_array_equal(rows.pure[:, 0], [3, 5])
    np.testing.assert_array_equal(rows.speech, [1, 2, 4])
