"""One copy each way, through memory that is used again; and no synchronising call on the way."""

import numpy as np
import pytest
import torch
from synchronising import synchronising_calls
from torch import nn

from diar import block as block_module
from diar.block import BlockRunner
from diar.lanes.lane import Lane
from diar.networks.campplus import TRUNK_CHANNELS, trunk_frames
from diar.profile import load_profile
from diar.transfer import Transfer

CPU = torch.device("cpu")
NAMES = {"span": "pyannote_campplus", "two_tier": "pyannote_campplus_two_tier"}


class TwoSpeakers(Lane):
    """Segmentation: speaker 0 alone, then speaker 1 alone."""

    name = "scripted"

    def run(self, inputs):
        logits = torch.full((len(inputs), 589, 7), -9.0)
        logits[:, :300, 1] = logits[:, 300:, 2] = -0.1
        return logits


class Ramp(Lane):
    name = "scripted"

    def run(self, inputs):
        frames = trunk_frames(inputs.shape[1])
        return inputs.mean() + torch.linspace(0, 1, TRUNK_CHANNELS * frames).reshape(
            1, TRUNK_CHANNELS, frames
        )


class Head(nn.Module):
    linear = nn.Linear(1, 192)

    def forward(self, statistics):
        return statistics[:, :192]


@pytest.fixture
def runner(request, monkeypatch, tmp_path):
    lanes = {"segmentation": TwoSpeakers(), "trunk": Ramp()}
    monkeypatch.setattr(block_module, "choose_lane", lambda wish, network, *_: lanes[network])
    monkeypatch.setattr(block_module, "load_campplus_head", lambda *_: Head())
    monkeypatch.setattr(block_module, "segmentation_module", lambda *_: None)
    return BlockRunner(load_profile(NAMES[request.param]), tmp_path, threads=1)


def noise(num_windows):
    geometry = load_profile("pyannote_campplus").geometry
    rng = np.random.default_rng(0)
    return rng.normal(0, 0.1, geometry.span_samples(num_windows)).astype(np.float32)


def test_what_is_sent_and_fetched_arrives_whatever_the_block_before_left():
    geometry = load_profile("pyannote_campplus").geometry
    transfer, waited = Transfer(CPU, geometry, 192, staged=True), []
    first = transfer.send(noise(3))
    second = transfer.send(-noise(1))
    np.testing.assert_array_equal(first.numpy(), noise(3))
    np.testing.assert_array_equal(second.numpy(), -noise(1))
    results = [torch.arange(24.0).reshape(2, 3, 4), torch.tensor([[5.0]])]
    arrays = transfer.fetch(results, lambda: waited.append(1))
    transfer.fetch([torch.zeros(30)], lambda: waited.append(2))
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(array, result.numpy())
    assert waited == [1, 2]


def test_the_largest_block_has_room():
    geometry = load_profile("pyannote_campplus").geometry
    transfer = Transfer(CPU, geometry, 192, staged=True)
    assert len(transfer.send(noise(32))) == geometry.span_samples()
    shapes = [(32, 589, 7), (32, 3, 192), (32, 3), (32, 3, 192)]
    assert [array.shape for array in transfer.fetch([torch.ones(s) for s in shapes], lambda: None)] == shapes


@pytest.mark.parametrize("runner", ["two_tier"], indirect=True)
def test_a_staged_block_gives_the_same_bytes(runner):
    plain = runner.run(noise(5))
    runner._transfer = Transfer(CPU, load_profile("pyannote_campplus").geometry, 192, staged=True)
    staged = runner.run(noise(5))
    for name in ("logits", "embeddings", "speech", "pure_embeddings"):
        np.testing.assert_array_equal(getattr(staged, name), getattr(plain, name))
        assert getattr(plain, name).any()


@pytest.mark.parametrize(
    ("runner", "expected"), [("span", []), ("two_tier", ["Tensor.tolist"])], indirect=["runner"]
)
def test_a_block_synchronises_nowhere_but_where_it_must(runner, expected):
    span = torch.from_numpy(noise(32))
    with torch.inference_mode(), synchronising_calls() as calls:
        runner._run(span, embeddings=True, spans=True)
    assert calls == expected


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: x.sum().item(), id="item"),
        pytest.param(lambda x: x.cpu(), id="cpu"),
        pytest.param(lambda x: x.to("cpu"), id="to-cpu"),
        pytest.param(lambda x: x[x > 0], id="boolean-index"),
        pytest.param(lambda x: torch.nonzero(x), id="nonzero"),
        pytest.param(lambda x: x.masked_select(x > 0), id="masked-select"),
        pytest.param(lambda x: bool(x.any()), id="truth"),
        pytest.param(lambda x: x.numpy(), id="numpy"),
        pytest.param(lambda x: torch.tensor([1, 2])[x.long()], id="nothing"),
    ],
)
def test_a_synchronising_call_is_seen(call, request):
    with synchronising_calls() as calls:
        call(torch.tensor([1.0, 0.0]))
    assert bool(calls) == (request.node.callspec.id != "nothing")
