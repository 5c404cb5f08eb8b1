"""Pure passes, the second tier of ``two_tier``: which windows have them, and what they see."""

import numpy as np
import pytest
import torch
from counting_networks import CLASS, CountingTrunk, frames_of, noise, scripted_classes

from diar import pure_passes
from diar.alignment import nearest_frames
from diar.block import BlockRunner
from diar.fbank import Fbank
from diar.pure_passes import MIN_PURE_FRAMES, PURE_FRAMES_STEP, fill_up


@pytest.fixture(scope="session")
def profile(two_tier):
    return two_tier


@pytest.mark.parametrize("num_windows", [1, 2, 11, 12, 31, 32])
def test_pure_rows_stand_in_every_kth_window(runner, networks, profile, num_windows):
    networks.segmentation.classes[:, 50:150] = CLASS[(2,)]
    result = runner.run(noise(profile.geometry, num_windows))
    expected = np.zeros((num_windows, 3), bool)
    expected[:: profile.pure_step(num_windows), 2] = True
    np.testing.assert_array_equal(result.pure_embeddings.any(axis=2), expected)
    assert result.embeddings[:, 2].any(axis=1).all()


def test_pure_rows_without_speech_are_zero(runner, networks, geometry):
    networks.segmentation.classes[0, 100:400] = CLASS[(1,)]
    heard = np.array([[0, 1, 0], [0, 0, 0]], bool)
    np.testing.assert_array_equal(runner.run(noise(geometry, 2)).pure_embeddings.any(axis=2), heard)


def test_pure_embeddings_see_the_frames_of_one_speaker(runner, networks, geometry, monkeypatch):
    monkeypatch.setattr(pure_passes, "normalise", lambda features: features)
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


@pytest.mark.parametrize(("num_frames", "filled"), [(1, 100), (20, 100), (99, 100), (100, 100), (101, 200)])
def test_frames_are_repeated_up_to_a_multiple(num_frames, filled):
    own = torch.randn(num_frames, 80, generator=torch.Generator().manual_seed(2))
    repeated = fill_up(own)
    assert len(repeated) == filled
    for frame in range(filled):
        assert torch.equal(repeated[frame], own[frame % num_frames])
