"""A block of span16 with scripted networks: one fbank pass, its windows, four speakers at once."""

import numpy as np
import pytest
import torch
from torch import nn

from diar import block as block_module
from diar.alignment import nearest_frames, trunk_frames_per_window
from diar.block import BlockRunner
from diar.errors import InternalError
from diar.fbank import Fbank
from diar.lanes.lane import Lane
from diar.networks.campplus import TRUNK_CHANNELS, trunk_frames
from diar.powerset import powerset_classes
from diar.profile import load_profile

PROFILE = load_profile("span16")
GEOMETRY = PROFILE.geometry
CLASS = {members: klass for klass, members in enumerate(powerset_classes(4, 4))}
EVERYBODY = CLASS[(0, 1, 2, 3)]


class Networks(Lane):
    """Both networks. classes: (window, frame), what the segmentation answers. extra: classes too many."""

    name = "scripted"

    def __init__(self):
        self.classes = np.zeros((8, 799), int)
        self.extra = 0
        self.windows = []
        self.trunks = 0

    def choose(self, wish, network, *_):
        return self if network == "segmentation" else CountingTrunk(self)

    def run(self, windows):
        self.windows.append(windows)
        logits = torch.full((len(windows), 799, 16 + self.extra), -9.0)
        return logits.scatter(2, torch.from_numpy(self.classes[: len(windows)])[..., None], -0.1)


class CountingTrunk(Lane):
    """Channel 0 of trunk frame i is i."""

    name = "scripted"

    def __init__(self, networks):
        self._networks = networks

    def run(self, features):
        self._networks.trunks += 1
        trunk = torch.zeros(1, TRUNK_CHANNELS, trunk_frames(features.shape[1]))
        trunk[0, 0] = torch.arange(trunk.shape[2])
        return trunk


class FirstStatistics(nn.Module):
    """An embedding is the first 192 means, and 1 added to all of them."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2 * TRUNK_CHANNELS, 192)

    def forward(self, statistics):
        return statistics[:, :192] + 1


@pytest.fixture
def networks(monkeypatch):
    networks = Networks()
    monkeypatch.setattr(block_module, "load_campplus_head", lambda *_: FirstStatistics())
    monkeypatch.setattr(block_module, "choose_lane", networks.choose)
    return networks


@pytest.fixture
def runner(networks, tmp_path):
    return BlockRunner(PROFILE, tmp_path, threads=1)


@pytest.fixture(scope="module")
def span():
    return (np.random.default_rng(4).normal(size=435_200) * 0.1).astype(np.float32)


def test_the_network_is_given_eight_windows_of_one_fbank_pass(runner, networks, span, monkeypatch):
    runner.run(span)
    (windows,) = networks.windows
    assert tuple(windows.shape) == (8, 1598, 80)
    assert windows.stride(0) == 160 * 80  # views: a window starts 160 fbank frames after the one before
    torch.testing.assert_close(windows[7], Fbank()(torch.from_numpy(span))[1120:2718])


def test_a_block_answers_in_the_shape_and_size_of_the_contract(runner, networks, span):
    networks.classes[:] = EVERYBODY
    result = runner.run(span)
    assert (span.nbytes, result.logits.shape, result.logits.nbytes) == (1_740_800, (8, 799, 16), 409_088)
    assert result.embeddings.shape == result.pure_embeddings.shape == (8, 4, 192)
    assert result.embeddings.any(axis=2).all()  # nobody is ever alone, so overlapped frames are pooled
    assert not result.speech.any()


def test_frames_of_network_trunk_and_window_lie_on_one_grid(runner, networks, span):
    frames = trunk_frames_per_window(GEOMETRY)
    assert nearest_frames(GEOMETRY, frames, 320).tolist() == list(range(799))
    networks.classes[:, 100:200] = CLASS[(3,)]
    networks.classes[:, 300:400] = CLASS[(0, 2)]
    result = runner.run(span)
    for window in range(8):
        assert result.embeddings[window, 3, 0] == pytest.approx(80 * window + 149.5 + 1)
        assert result.embeddings[window, 0, 0] == pytest.approx(80 * window + 349.5 + 1)
    np.testing.assert_allclose(result.speech, np.tile(np.float32([0, 0, 0, 2]), (8, 1)))


def test_every_second_window_has_pure_embeddings(runner, networks, span):
    networks.classes[:, 100:200] = CLASS[(1,)]
    pure = runner.run(span).pure_embeddings.any(axis=2)
    np.testing.assert_array_equal(np.argwhere(pure), [[0, 1], [2, 1], [4, 1], [6, 1]])
    assert networks.trunks == 1 + 4


def test_without_embeddings_there_are_logits_alone(runner, networks, span):
    networks.classes[:] = EVERYBODY
    result = runner.run(span, embeddings=False)
    assert (result.logits.argmax(axis=2) == EVERYBODY).all()
    assert networks.trunks == 0


def test_a_network_of_another_contract_is_an_internal_error(runner, networks, span):
    networks.extra = 1
    with pytest.raises(InternalError, match=r"LOGITS: got \(8, 799, 17\), expected \(8, 799, 16\)"):
        runner.run(span)
