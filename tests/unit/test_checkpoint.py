"""A weights file that is missing, altered or another network's is named, never half loaded."""

import pickle

import pytest
import torch

from diar.artifacts import file_sha256
from diar.errors import SetupError
from diar.networks.campplus import CamppHead, CamppTrunk, load_campplus, load_campplus_head
from diar.networks.checkpoint import read_checkpoint
from diar.networks.segmentation import PyanNet, load_segmentation


class Opener:
    """What an unsafe checkpoint holds: something that acts when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"linear.weight": torch.ones(2, 2)}, path)
    return path


def test_a_missing_file_is_named_with_the_command_that_fetches_it(tmp_path):
    with pytest.raises(SetupError, match=r"E_WEIGHTS\|.*absent\.pt.*scripts/fetch_weights"):
        read_checkpoint(tmp_path / "absent.pt")


def test_an_altered_file_is_refused_with_both_digests(checkpoint):
    expected = file_sha256(checkpoint)
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(SetupError, match=f"sha256 {file_sha256(checkpoint)}, expected {expected}"):
        read_checkpoint(checkpoint, expected)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", pickle.dumps({"a": 1}, protocol=2)[:-3]])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(SetupError, match="E_WEIGHTS"):
        read_checkpoint(path)


def test_nothing_but_tensors_and_values_is_unpickled(tmp_path):
    path, touched = tmp_path / "weights.pt", tmp_path / "touched"
    torch.save({"weight": Opener(touched)}, path)
    with pytest.raises(SetupError, match="not a readable checkpoint"):
        read_checkpoint(path)
    assert not touched.exists()


@pytest.mark.parametrize("load", [load_segmentation, load_campplus])
def test_weights_of_another_network_are_refused(checkpoint, load):
    with pytest.raises(SetupError, match="E_WEIGHTS"):
        load(checkpoint)


def campplus_checkpoint():
    """Keys as the original stores them, random values."""
    stored = {}
    for key, value in CamppTrunk().state_dict().items():
        name = key.removeprefix("stages.")
        stored[name if name.startswith("head.") else f"xvector.{name}"] = value
    for key, value in CamppHead().state_dict().items():
        is_linear = key == "linear.weight"
        stored[f"xvector.dense.{key if is_linear else f'nonlinear.{key}'}"] = (
            value[..., None] if is_linear else value
        )
    return stored


@pytest.mark.parametrize("fault", ["none", "missing-key", "unknown-key", "wrong-shape"])
def test_every_key_must_fit(tmp_path, fault):
    stored, path = campplus_checkpoint(), tmp_path / "campplus.pt"
    if fault == "missing-key":
        del stored["xvector.block2.tdnnd7.linear1.weight"]
    elif fault == "unknown-key":
        stored["xvector.block9.weight"] = torch.zeros(1)
    elif fault == "wrong-shape":
        stored["head.bn1.bias"] = torch.zeros(31)
    torch.save(stored, path)
    if fault == "none":
        trunk, head = load_campplus(path)
        assert torch.equal(trunk.head.bn1.bias, stored["head.bn1.bias"])
        alone = load_campplus_head(path)
        assert torch.equal(alone.linear.weight, stored["xvector.dense.linear.weight"][..., 0])
        assert alone.state_dict().keys() == head.state_dict().keys()
        return
    with pytest.raises(SetupError, match=r"E_WEIGHTS\|.*does not fit CamppTrunk"):
        load_campplus(path)


def test_a_segmentation_checkpoint_says_its_sizes(tmp_path):
    path, network = tmp_path / "segmentation.pt", PyanNet(7, lstm_size=32, lstm_layers=2, linear_size=16)
    weights = network.state_dict()
    del weights["sincnet.conv1d.0.weight"]
    filterbank = {"low_hz_": (40, 1), "band_hz_": (40, 1), "window_": (125,), "n_": (1, 125)}
    for name, shape in filterbank.items():
        weights[f"sincnet.conv1d.0.filterbank.{name}"] = torch.rand(shape) + 1.0
    sizes = {
        "sample_rate": 16_000,
        "output_dim": 7,
        "sincnet": {"stride": 10},
        "lstm": {"hidden_size": 32, "num_layers": 2},
        "linear": {"hidden_size": 16, "num_layers": 2},
    }
    torch.save({"model": sizes, "state_dict": weights}, path)
    loaded = load_segmentation(path)
    assert loaded.lstm.hidden_size == 32
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
