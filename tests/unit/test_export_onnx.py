"""Exported graphs, with random weights: few and standard operators, and a proof that finds differences."""

from dataclasses import replace

import msgspec
import onnx
import pytest
import torch

from diar.errors import SetupError
from diar.lanes.lane import FULL_PRECISION
from diar.networks.campplus import CamppHead, CamppTrunk
from diar.networks.segmentation import PyanNet
from diar.profile import load_profile
from diar.tools.export_onnx import is_up_to_date, main, plan_graphs, prove, write

SEGMENTATION, TRUNK, HEAD = plan_graphs(load_profile("pyannote_campplus"))


def random_network(kind):
    torch.manual_seed(5)
    return kind().eval().requires_grad_(False)


@pytest.fixture
def head(tmp_path):
    """A random head and its file."""
    network, path = random_network(CamppHead), tmp_path / HEAD.file
    write(HEAD, network, path)
    return network, path


def test_segmentation_has_one_lstm_per_layer_and_its_filters_as_constants(tmp_path):
    network, path = random_network(lambda: PyanNet(7)), tmp_path / SEGMENTATION.file
    write(SEGMENTATION, network, path)
    nodes = onnx.load(path).graph.node
    operators = [node.op_type for node in nodes]
    assert operators.count("LSTM") == 4
    assert operators.count("Conv") == 3
    assert not {"Sin", "Cos", "Loop", "If"} & set(operators)
    marked = [node.op_type for node in nodes if FULL_PRECISION in node.output]
    readers = [node.op_type for node in nodes if FULL_PRECISION in node.input]
    assert (marked, readers) == (["LeakyRelu"], ["Conv"])
    assert prove(SEGMENTATION, network, path) <= SEGMENTATION.limit


def test_trunk_is_right_for_any_number_of_frames(tmp_path):
    network, path = random_network(CamppTrunk), tmp_path / TRUNK.file
    write(TRUNK, network, path)
    assert not {"Loop", "If", "AveragePool"} & {node.op_type for node in onnx.load(path).graph.node}
    assert prove(TRUNK, network, path) <= TRUNK.limit


def test_a_file_that_is_not_the_network_is_named_with_the_difference(head):
    network, path = head
    network.linear.weight += 0.01
    with pytest.raises(
        SetupError, match=r"E_EXPORT\|campplus_head.onnx differs from PyTorch by .*at most 5e-04"
    ):
        prove(HEAD, network, path)


def test_a_file_is_up_to_date_by_its_stamp(head, tmp_path):
    _, path = head
    assert is_up_to_date(path, HEAD)
    assert not is_up_to_date(path, SEGMENTATION)  # made of other weights
    assert not is_up_to_date(tmp_path / "absent.onnx", HEAD)
    path.write_bytes(path.read_bytes()[:1_000])
    assert not is_up_to_date(path, HEAD)


def test_the_reference_network_is_exported_and_marked_untrained(tmp_path):
    (graph, *_) = plan_graphs(load_profile("span16"))
    small = replace(graph, shapes=[(2, 60, 80), (1, 60, 80)])
    path = tmp_path / graph.file
    network = graph.load(tmp_path)
    write(small, network, path)
    assert (path.name, is_up_to_date(path, graph)) == ("span16_reference.onnx", True)
    model = onnx.load(path)
    assert {entry.key: entry.value for entry in model.metadata_props}["diar.untrained"] == "yes"
    computed = [node for node in model.graph.node if node.op_type != "Identity"]  # of equal biases
    assert (computed[0].op_type, computed[0].output) == ("LayerNormalization", [FULL_PRECISION])
    assert prove(small, network, path) <= graph.limit


def test_a_network_to_bring_along_is_not_exported():
    profile = load_profile("span16")
    segmentation = msgspec.structs.replace(profile.segmentation, network="onnx")
    graphs = plan_graphs(msgspec.structs.replace(profile, segmentation=segmentation))
    assert [graph.file for graph in graphs] == ["campplus_trunk.onnx", "campplus_head.onnx"]


def test_missing_weights_are_one_line_and_leave_no_file(tmp_path, capsys):
    assert main(["--engines-dir", str(tmp_path)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("error: expected the weights file")
    assert errors[0].endswith("run scripts/fetch_weights")
    assert not list(tmp_path.rglob("*.onnx"))
