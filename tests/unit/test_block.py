"""A block with scripted networks: which frames go where, what is zero, what is refused."""

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from diar import block as block_module
from diar.block import (
    MIN_PURE_FRAMES,
    PURE_FRAMES_STEP,
    SILENCE,
    BlockRunner,
    fill_up,
    nearest_frames,
    normalise,
    trunk_frames_per_window,
)
from diar.errors import InternalError, InvalidAudio, SetupError
from diar.fbank import Fbank, num_fbank_frames
from diar.lanes.lane import Lane
from diar.networks.campplus import TRUNK_CHANNELS, trunk_frames
from diar.powerset import powerset_classes

CLASS = {members: klass for klass, members in enumerate(powerset_classes(3, 2))}
DIM = 192


class ScriptedSegmentation(Lane):
    """Answers window i with row i of ``classes``; what it answers can be spoilt."""

    name = "scripted:segmentation"

    def __init__(self):
        self.classes = np.zeros((32, 589), int)
        self.spoil = 0.0

    def run(self, windows):
        logits = torch.full((len(windows), 589, 7), -9.0)
        classes = torch.from_numpy(self.classes[: len(windows)])
        return logits.scatter(2, classes[..., None], -0.1) + self.spoil

    def close(self):
        self.name = "closed"


class CountingTrunk(Lane):
    """Channel 0 of trunk frame i is i + 1; keeps what it was given."""

    name = "scripted:trunk"

    def __init__(self):
        self.inputs = []
        self.spoil = 0.0

    def run(self, features):
        self.inputs.append(features[0].clone())
        trunk = torch.zeros(1, TRUNK_CHANNELS, trunk_frames(features.shape[1]))
        trunk[0, 0] = torch.arange(trunk.shape[2]) + 1.0
        return trunk + self.spoil

    def close(self):
        self.name = "closed"


class FirstStatistics(nn.Module):
    """An embedding is the first ``dim`` means, and 5 added to all of them, as a bias would."""

    def __init__(self, dim=DIM):
        super().__init__()
        self.linear = nn.Linear(2 * TRUNK_CHANNELS, dim)

    def forward(self, statistics):
        return statistics[:, : self.linear.out_features] + 5.0


class Networks:
    def __init__(self):
        self.segmentation, self.trunk, self.head = ScriptedSegmentation(), CountingTrunk(), FirstStatistics()

    def choose(self, wish, network, *_):
        return self.segmentation if network == "segmentation" else self.trunk


@pytest.fixture
def networks(monkeypatch):
    networks = Networks()
    monkeypatch.setattr(block_module, "load_campplus_head", lambda *_: networks.head)
    monkeypatch.setattr(block_module, "choose_lane", networks.choose)
    return networks


@pytest.fixture
def runner(networks, profile, tmp_path):
    return BlockRunner(profile, tmp_path, threads=1)


def noise(geometry, num_windows):
    return (np.random.default_rng(3).normal(size=geometry.span_samples(num_windows)) * 0.1).astype(np.float32)


def frames_of(classes, members):
    """Frames of one window in which just these local speakers are active."""
    return set(np.flatnonzero(classes == CLASS[members]).tolist())


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


def scripted_classes(geometry):
    """Of two windows: speaker 1 from frame 100 to 300, at times with 2; others alone in the second one."""
    classes = np.zeros((2, geometry.frames), int)
    classes[:, 100:200] = classes[:, 250:300] = CLASS[(1,)]
    classes[:, 200:250] = CLASS[(1, 2)]
    classes[1, 400:500] = CLASS[(0,)]
    classes[1, 250:300] = CLASS[(2,)]
    return classes


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
    np.testing.assert_array_equal(result.pure_embeddings.any(axis=2), heard)


def test_a_frame_that_no_trunk_frame_is_near_to_gives_a_zero_row(runner, networks, geometry):
    index = nearest_frames(geometry, 499, 320).tolist()
    between = next(frame for frame in range(geometry.frames) if frame not in index)
    networks.segmentation.classes[0, between] = CLASS[(0,)]
    networks.segmentation.classes[1, index[7]] = CLASS[(0,)]
    result = runner.run(noise(geometry, 2))
    np.testing.assert_array_equal(result.embeddings[:, 0].any(axis=1), [False, True])


@pytest.mark.parametrize("num_windows", [1, 2, 11, 12, 31, 32])
def test_pure_rows_stand_in_every_kth_window(runner, networks, profile, num_windows):
    networks.segmentation.classes[:, 50:150] = CLASS[(2,)]
    result = runner.run(noise(profile.geometry, num_windows))
    expected = np.zeros((num_windows, 3), bool)
    expected[:: profile.pure_step(num_windows), 2] = True
    np.testing.assert_array_equal(result.pure_embeddings.any(axis=2), expected)
    assert result.embeddings[:, 2].any(axis=1).all()


def test_pure_embeddings_see_the_frames_of_one_speaker(runner, networks, geometry, monkeypatch):
    monkeypatch.setattr(block_module, "normalise", lambda features: features)
    networks.segmentation.classes[:2] = classes = scripted_classes(geometry)
    span = noise(geometry, 2)
    runner.run(span)
    fbank = Fbank()(torch.from_numpy(span))
    index = nearest_frames(geometry, 998, 160).tolist()
    expected = []
    # speaker 2 of the first window is never alone
    for window, members in [(0, (1,)), (0, (1, 2)), (1, (0,)), (1, (1,)), (1, (2,))]:
        own = frames_of(classes[window], members)
        expected.append(fbank[[100 * window + i for i, frame in enumerate(index) if frame in own]])
    pure_inputs = [features for features in networks.trunk.inputs if len(features) < len(fbank)]
    assert len(pure_inputs) == len(expected)
    for features, own in zip(pure_inputs, expected, strict=True):
        assert len(features) % PURE_FRAMES_STEP == 0
        torch.testing.assert_close(features[: len(own)], own)
        assert len(features) - len(own) < PURE_FRAMES_STEP
    assert len(expected[0]) == pytest.approx(150 * 270 / 160, abs=2)


@pytest.mark.parametrize(("num_frames", "is_pure"), [(11, False), (13, True)])
def test_too_few_frames_give_no_pure_embedding(runner, networks, geometry, num_frames, is_pure):
    networks.segmentation.classes[0, 100 : 100 + num_frames] = CLASS[(0,)]
    assert (num_frames * 270 / 160 >= MIN_PURE_FRAMES) == is_pure
    result = runner.run(noise(geometry, 1))
    assert result.pure_embeddings[0, 0].any() == is_pure
    assert result.embeddings[0, 0].any()


def test_a_stretch_is_embedded_as_the_pure_rows_are(runner, networks, geometry):
    span = noise(geometry, 1)
    networks.segmentation.classes[0, :300] = CLASS[(0,)]
    pure = runner.run(span).pure_embeddings[0, 0]
    active = nearest_frames(geometry, 998, 160).numpy() < 300
    np.testing.assert_array_equal(runner.embed(span, active), pure)
    assert not runner.embed(span, active & (np.arange(998) < MIN_PURE_FRAMES - 1)).any()


class TwoVoices(CountingTrunk):
    """Channel 0 is loud up to trunk frame 200, channel 1 from there on."""

    def run(self, features):
        trunk = super().run(features) * 0
        trunk[0, 0, :200] = trunk[0, 1, 200:] = 1000.0
        return trunk


@pytest.mark.parametrize(("what", "slots"), [({}, 2), ({"spans": False}, 1), ({"embeddings": False}, 1)])
def test_a_local_speaker_that_is_two_people_is_split_before_it_is_embedded(
    networks, profile, tmp_path, what, slots
):
    networks.trunk = TwoVoices()
    networks.segmentation.classes[0, 10:230] = networks.segmentation.classes[0, 250:400] = CLASS[(1,)]
    result = BlockRunner(profile, tmp_path, threads=1).run(noise(profile.geometry, 1), **what)
    assert len(np.unique(result.logits.argmax(axis=2))) == 1 + slots
    if what:
        return
    np.testing.assert_allclose(result.speech[0], np.array([150, 220, 0]) * 270 / 16_000, rtol=1e-6)
    assert result.embeddings[0, 0, 1] > 900 > result.embeddings[0, 0, 0]
    assert result.embeddings[0, 1, 0] > 900 > result.embeddings[0, 1, 1]
    pure_inputs = [len(features) for features in networks.trunk.inputs if len(features) < 998]
    assert pure_inputs == [300, 400]  # 253 and 371 frames, filled up


def test_the_span_variant_runs_the_trunk_once(networks, profile, tmp_path):
    embedding = msgspec.structs.replace(profile.embedding, variant="span")
    runner = BlockRunner(msgspec.structs.replace(profile, embedding=embedding), tmp_path, threads=1)
    networks.segmentation.classes[:, 100:400] = CLASS[(1,)]
    result = runner.run(noise(profile.geometry, 3))
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


@pytest.mark.parametrize(("num_frames", "filled"), [(1, 100), (20, 100), (99, 100), (100, 100), (101, 200)])
def test_frames_are_repeated_up_to_a_multiple(num_frames, filled):
    own = features(num_frames)
    repeated = fill_up(own)
    assert len(repeated) == filled
    for frame in range(filled):
        assert torch.equal(repeated[frame], own[frame % num_frames])
