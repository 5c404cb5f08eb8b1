"""Blocks of a real conversation through the real networks."""

import numpy as np
import pytest

from diar.block import BlockRunner
from diar.local import diarize_local
from diar.profile import load_profile

PROFILES = {"span": "pyannote_campplus", "two_tier": "pyannote_campplus_two_tier"}
GEOMETRY = load_profile("pyannote_campplus").geometry  # of both
SECOND = 16_000


@pytest.fixture(scope="module", params=PROFILES)
def profile(request):
    return load_profile(PROFILES[request.param])


@pytest.fixture(scope="module")
def vectors(profile):
    """Names of the embeddings that the profile's blocks have."""
    return ["embeddings", "pure_embeddings"] if profile.embedding.variant == "two_tier" else ["embeddings"]


def make_runner(profile, weights_dir, lane, threads=1):
    lanes = {"segmentation_lane": lane, "embedding_lane": lane}
    return BlockRunner(profile, weights_dir.parent, **lanes, threads=threads)


@pytest.fixture(scope="module")
def exact(profile, weights_dir):
    runner = make_runner(profile, weights_dir, "exact")
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def openvino(profile, weights_dir, onnx_dir):
    runner = make_runner(profile, weights_dir, "openvino:fp32")
    yield runner
    runner.close()


@pytest.fixture(params=["exact", "openvino"])
def runner(request, profile):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def two_windows(sample):
    """A span of two windows in which both speakers talk."""
    start = 6 * SECOND
    return sample[start : start + GEOMETRY.span_samples(2)].numpy()


def arrays(result):
    return result.logits, result.embeddings, result.speech, result.pure_embeddings


def cosine(a, b):
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def test_a_block_does_not_depend_on_what_ran_before(runner, two_windows):
    before = [array.tobytes() for array in arrays(runner.run(two_windows))]
    runner.run(two_windows[::-1][: GEOMETRY.window].copy())
    runner.run(np.zeros(GEOMETRY.window, np.float32), embeddings=False)
    assert [array.tobytes() for array in arrays(runner.run(two_windows))] == before


def test_the_number_of_threads_changes_no_byte(profile, weights_dir, openvino, exact, two_windows):
    before = [array.tobytes() for array in arrays(openvino.run(two_windows))]
    exact.run(two_windows)  # PyTorch's threads are the process's
    more = make_runner(profile, weights_dir, "openvino:fp32", threads=2)
    assert [array.tobytes() for array in arrays(more.run(two_windows))] == before
    more.close()


def test_without_spans_all_but_the_embeddings_is_the_same(runner, profile, two_windows):
    whole, lean = runner.run(two_windows), runner.run(two_windows, spans=False)
    for name in ("logits", "speech", "pure_embeddings"):
        assert np.array_equal(getattr(whole, name), getattr(lean, name)), name
    assert whole.embeddings.any()
    if profile.embedding.variant == "span":  # there are no others
        assert np.array_equal(lean.embeddings, whole.embeddings)
    else:
        assert not lean.embeddings.any()


def test_without_embeddings_the_scores_are_the_same(runner, two_windows):
    whole, scores = runner.run(two_windows), runner.run(two_windows, embeddings=False)
    assert scores.logits.tobytes() == whole.logits.tobytes()


def test_lanes_agree(exact, openvino, vectors, two_windows):
    reference, other = exact.run(two_windows), openvino.run(two_windows)
    assert np.abs(reference.logits - other.logits).max() <= 1e-3
    np.testing.assert_allclose(other.speech, reference.speech, atol=0.05)
    for name in vectors:
        one, two = getattr(reference, name), getattr(other, name)
        rows = one.any(axis=2)
        np.testing.assert_array_equal(two.any(axis=2), rows)
        assert rows.sum() >= 2
        assert min(cosine(a, b) for a, b in zip(one[rows], two[rows], strict=True)) >= 0.9999


def test_a_window_is_heard_as_if_it_were_alone(openvino, vectors, two_windows):
    both, alone = openvino.run(two_windows), openvino.run(two_windows[: GEOMETRY.window])
    assert np.abs(both.logits[0] - alone.logits[0]).max() <= 1e-3
    for name, least in zip(vectors, (0.95, 0.999), strict=False):  # in the pure ones is nobody else's speech
        one, two = (getattr(result, name)[0] for result in (both, alone))
        rows = np.flatnonzero(two.any(axis=1))
        assert len(rows) == 2
        assert min(cosine(one[row], two[row]) for row in rows) >= least


def test_two_speakers_have_two_voices(openvino, vectors, two_windows):
    result = openvino.run(two_windows)
    rows = np.flatnonzero(result.speech[0] >= 1.0)
    assert len(rows) == 2
    for name, most in zip(vectors, (0.6, 0.4), strict=False):
        assert cosine(*getattr(result, name)[0][rows]) < most


@pytest.mark.parametrize(
    "signal",
    [
        pytest.param(lambda time: np.zeros_like(time), id="silence"),
        pytest.param(lambda time: np.full_like(time, 0.5), id="dc"),
        pytest.param(lambda time: np.full_like(time, 1e-30), id="next-to-nothing"),
        pytest.param(lambda time: np.random.default_rng(1).normal(size=time.shape) * 0.05, id="white-noise"),
        pytest.param(lambda time: np.sign(np.sin(2 * np.pi * 50 * time)), id="hum-at-full-scale"),
    ],
)
def test_signals_without_speech_have_no_speakers(runner, signal):
    span = signal(np.arange(GEOMETRY.window) / SECOND).astype(np.float32)
    result = runner.run(span)
    assert not result.speech.any()
    assert not result.embeddings.any()
    assert not result.pure_embeddings.any()


def test_digital_silence_behind_a_recording_changes_no_turn(openvino, profile, sample):
    speech = sample[6 * SECOND : 15 * SECOND].numpy()
    padded = np.concatenate([speech, np.zeros(4 * SECOND, np.float32)])
    one, two = (diarize_local(samples, profile, openvino) for samples in (speech, padded))
    assert len(one.speakers) == len(two.speakers) == 2
    assert [turn.speaker for turn in one.turns] == [turn.speaker for turn in two.turns]
    for a, b in zip(one.turns, two.turns, strict=True):
        assert abs(a.start - b.start) <= SECOND // 5
        assert abs(a.end - b.end) <= SECOND // 5
