"""The untrained reference network: right in shape, the same everywhere, not the same for every input."""

import logging

import msgspec
import pytest
import torch

from diar.network_files import has_module, installed_file, onnx_file
from diar.networks.load import segmentation_module
from diar.networks.reference import fingerprint, reference_network
from diar.profile import load_profile

SPAN16 = load_profile("span16")


@pytest.fixture(scope="module")
def network():
    return reference_network(16)


@pytest.fixture(scope="module")
def windows():
    return 10 + 3 * torch.randn(3, 1598, 80, generator=torch.Generator().manual_seed(1))


def test_weights_are_the_same_on_every_machine(network):
    assert fingerprint(network) == fingerprint(reference_network(16))
    assert fingerprint(network) == "6608acd4a91f7b7e36bf866556a1535ab357e8189b5c2c5cbd22551b4e05dd82"


def test_answers_are_log_probabilities_in_the_shape_of_the_contract(network, windows):
    answers = network(windows)
    assert answers.shape == (3, 799, 16)
    torch.testing.assert_close(answers.exp().sum(dim=-1), torch.ones(3, 799))


def test_answers_depend_on_their_own_window_alone(network, windows):
    torch.testing.assert_close(network(windows)[1:2], network(windows[1:2]), rtol=0, atol=1e-5)


def test_all_classes_are_heard(network, windows):
    assert len(network(windows)[0].argmax(dim=-1).unique()) == 16


def test_it_stands_in_with_a_warning_until_a_network_is_installed(tmp_path, caplog):
    assert onnx_file(SPAN16, "segmentation", tmp_path).name == "span16_reference.onnx"
    assert has_module(SPAN16, tmp_path)
    make = segmentation_module(SPAN16, tmp_path)
    assert fingerprint(make()) == fingerprint(reference_network(16))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "untrained reference network" in record.getMessage()
    assert "scripts/check_network MODEL.onnx --profile span16" in record.getMessage()
    file = installed_file(SPAN16, tmp_path)
    file.parent.mkdir()
    file.write_bytes(b"")
    assert onnx_file(SPAN16, "segmentation", tmp_path) == file
    assert segmentation_module(SPAN16, tmp_path) is None
    assert len(caplog.records) == 1


def test_a_profile_of_its_own_network_has_no_other(tmp_path, profile):
    own = msgspec.structs.replace(SPAN16.segmentation, network="onnx")
    brought = msgspec.structs.replace(SPAN16, segmentation=own)
    assert segmentation_module(brought, tmp_path) is None
    assert onnx_file(brought, "segmentation", tmp_path).name == "span16_segmentation.onnx"
    installed = installed_file(profile, tmp_path)
    installed.parent.mkdir()
    installed.write_bytes(b"")
    assert onnx_file(profile, "segmentation", tmp_path) != installed
