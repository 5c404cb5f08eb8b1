"""A block with scripted networks: which frames go where, what is zero, what is refused."""

import msgspec
import numpy as np
import pytest
import torch
from counting_networks import CLASS, DIM, frames_of, noise, scripted_classes

from diar.alignment import nearest_frames, trunk_frames_per_window
from diar.block import BlockRunner
from diar.errors import InternalError, InvalidAudio, SetupError
from diar.fbank import Fbank, num_fbank_frames
from diar.front_end import SILENCE, normalise
from diar.networks.campplus import trunk_frames


def nearest(geometry, sample):
    """The segmentation frame whose centre is nearest to a sample of the window; any of two."""
    centres = geometry.frame_field // 2 + geometry.frame_step * np.arange(geometry.frames)
    distance = np.abs(centres - sample)
    return set(np.flatnonzero(distance == distance.min()).tolist())


@pytest.mark.parametrize(("step", "count"), [(320, 499), (160, 998), (160, 1)])
def test_nearest_frames_are_the_nearest(geometry, step, count):
    frames = nearest_frames(geometry, count, step).tolist()
    assert all(frame in nearest(geometry, 200 + i * step) for i, frame in enumerate(frames))


def test_trunk_frames_of_a_window_look_at_it_alone(geometry):
    frames = trunk_frames_per_window(geometry)
    last_fbank_frame = 2 * (frames - 1) + 1
    assert 160 * last_fbank_frame + 400 <= geometry.window < 160 * (last_fbank_frame + 2) + 400
    for n in (1, 2, 31, 32):  # and the trunk of a span has them all
        assert (n - 1) * geometry.hop // 320 + frames <= trunk_frames(
            num_fbank_frames(geometry.span_samples(n))
        )


def test_embeddings_are_pooled_over_the_frames_of_each_speaker_alone(runner, networks, geometry):
    networks.segmentation.classes[:2] = classes = scripted_classes(geometry)
    result = runner.run(noise(geometry, 2))
    index = nearest_frames(geometry, 499, 320).tolist()
    for window, speaker in [(0, 1), (1, 0), (1, 1), (1, 2)]:
        alone = frames_of(classes[window], (speaker,))
        pooled = [50 * window + i + 1 for i, frame in enumerate(index) if frame in alone]
        assert result.embeddings[window, speaker, 0] == pytest.approx(np.mean(pooled) + 5, rel=1e-5)


def test_with_little_clean_speech_overlapped_frames_are_pooled_too(runner, networks, geometry):
    networks.segmentation.classes[0, 200:250] = CLASS[(1, 2)]
    networks.segmentation.classes[0, 250:270] = CLASS[(2,)]  # 20 frames are 0.34 s
    result = runner.run(noise(geometry, 1))
    index = nearest_frames(geometry, 499, 320)
    pooled = torch.nonzero((index >= 200) & (index < 270))[:, 0] + 1
    assert result.embeddings[0, 2, 0] == pytest.approx(pooled.float().mean() + 5)
    np.testing.assert_allclose(result.speech[0], [0, 0, 20 * 270 / 16_000], rtol=1e-6)


def test_speech_is_seconds_alone(runner, networks, geometry):
    networks.segmentation.classes[:2] = scripted_classes(geometry)
    result = runner.run(noise(geometry, 2))
    np.testing.assert_allclose(
        result.speech, np.array([[0, 150, 0], [100, 100, 50]]) * 270 / 16_000, rtol=1e-6
    )


def test_rows_without_speech_are_zero(runner, networks, geometry):
    networks.segmentation.classes[0, 100:400] = CLASS[(1,)]
    result = runner.run(noise(geometry, 2))
    heard = np.array([[0, 1, 0], [0, 0, 0]], bool)
    np.testing.assert_array_equal(result.embeddings.any(axis=2), heard)


def test_a_frame_that_no_trunk_frame_is_near_to_gives_a_zero_row(runner, networks, geometry):
    index = nearest_frames(geometry, 499, 320).tolist()
    between = next(frame for frame in range(geometry.frames) if frame not in index)
    networks.segmentation.classes[0, between] = CLASS[(0,)]
    networks.segmentation.classes[1, index[7]] = CLASS[(0,)]
    result = runner.run(noise(geometry, 2))
    np.testing.assert_array_equal(result.embeddings[:, 0].any(axis=1), [False, True])


def test_the_span_variant_runs_the_trunk_once(runner, networks, geometry):
    networks.segmentation.classes[:, 100:400] = CLASS[(1,)]
    result = runner.run(noise(geometry, 3))
    assert not result.pure_embeddings.any()
    assert len(networks.trunk.inputs) == 1


def test_without_embeddings_the_trunk_does_not_run(runner, networks, geometry):
    networks.segmentation.classes[:2] = classes = scripted_classes(geometry)
    result = runner.run(noise(geometry, 2), embeddings=False)
    np.testing.assert_array_equal(result.logits.argmax(axis=2), classes)
    for array in (result.embeddings, result.speech, result.pure_embeddings):
        assert not array.any()
    assert (result.embeddings.shape, result.speech.shape) == ((2, 3, DIM), (2, 3))
    assert networks.trunk.inputs == []


def test_all_arrays_are_float32_and_named_by_their_lanes(runner, networks, geometry):
    networks.segmentation.classes[:2] = scripted_classes(geometry)
    result = runner.run(noise(geometry, 2))
    for array in (result.logits, result.embeddings, result.speech, result.pure_embeddings):
        assert array.dtype == np.float32
    assert result.lanes == runner.lanes == ("scripted:segmentation", "scripted:trunk")


@pytest.mark.parametrize("network", ["segmentation", "trunk"])
@pytest.mark.parametrize("spoil", [float("nan"), float("inf")])
def test_a_network_that_answers_with_nonsense_is_an_internal_error(
    runner, networks, geometry, network, spoil
):
    networks.segmentation.classes[:] = CLASS[(0,)]
    getattr(networks, network).spoil = spoil
    with pytest.raises(InternalError, match=r"E_INTERNAL_NONFINITE\|(LOGITS|EMBEDDINGS): "):
        runner.run(noise(geometry, 1))


@pytest.mark.parametrize(
    "num_samples", [0, 1, 159_999, 160_001, 175_999, 656_001, 672_000, 16_000], ids=lambda n: f"{n}-samples"
)
def test_another_length_is_refused_with_the_lengths_allowed(runner, num_samples):
    with pytest.raises(InvalidAudio) as caught:
        runner.run(np.zeros(num_samples, np.float32))
    assert str(caught.value) == (
        f"E_SPAN_LENGTH|got {num_samples} samples, expected 160000 + (n - 1) * 16000 for n = 1 … 32 windows"
    )


@pytest.mark.parametrize(
    ("span", "word"),
    [
        pytest.param(np.zeros((1, 160_000), np.float32), "E_AUDIO_SHAPE", id="two-axes"),
        pytest.param(np.zeros(160_000), "E_AUDIO_DTYPE", id="float64"),
        pytest.param(np.zeros(160_000, np.int16), "E_SPAN_DTYPE", id="pcm"),
        pytest.param(np.full(160_000, np.nan, np.float32), "E_AUDIO_NONFINITE", id="nan"),
        pytest.param(np.full(160_000, 300, np.float32), "E_AUDIO_RANGE", id="other-scale"),
    ],
)
def test_spans_that_are_no_audio_are_refused(runner, span, word):
    with pytest.raises(InvalidAudio) as caught:
        runner.run(span)
    assert caught.value.word == word


def test_a_span_that_cannot_be_written_is_read(runner, geometry):
    span = noise(geometry, 1)
    span.flags.writeable = False  # as tensors that come over the wire
    runner.run(span)


def test_an_embedding_of_another_size_than_the_profiles_is_a_load_error(networks, profile, tmp_path):
    embedding = msgspec.structs.replace(profile.embedding, dim=256)
    with pytest.raises(SetupError, match=r"E_PROFILE\|embedding.dim is 256, campplus.* vectors of 192"):
        BlockRunner(msgspec.structs.replace(profile, embedding=embedding), tmp_path, threads=1)


def test_closing_gives_back_both_networks(runner, networks):
    runner.close()
    assert (networks.segmentation.name, networks.trunk.name) == ("closed", "closed")


def features(num_frames):
    return torch.randn(num_frames, 80, generator=torch.Generator().manual_seed(2)) + 12.0


def test_normalising_takes_the_mean_off():
    torch.testing.assert_close(normalise(features(50)), features(50) - features(50).mean(dim=0))


@pytest.mark.parametrize(
    "where", [slice(0, 0), slice(10, 40), slice(50, 50)], ids=["before", "within", "after"]
)
def test_digital_silence_does_not_move_the_mean_and_becomes_zero(where):
    silence = Fbank()(torch.zeros(160 * 29 + 400))
    assert (silence <= SILENCE).all()
    speech = features(50)
    mixed = torch.cat([speech[: where.start], silence, speech[where.start :]])
    normal = normalise(mixed)
    sound = (mixed > SILENCE).any(dim=1)
    torch.testing.assert_close(normal[sound], normalise(speech))
    assert not normal[~sound].any()


def test_silence_alone_is_zeros():
    assert not normalise(Fbank()(torch.zeros(16_000))).any()
