"""FP16 graphs: products in 16 bits, everything that must not be in 32, types right throughout."""

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from diar.errors import SetupError
from diar.lanes.lane import FULL_PRECISION
from diar.networks.campplus import CamppTrunk
from diar.networks.segmentation import PyanNet
from diar.plans import Shapes
from diar.profile import load_profile
from diar.tools.export_onnx import plan_graphs, write
from diar.tools.half_precision import ancestors, to_half
from diar.tools.half_proof import prove_half

SEGMENTATION, TRUNK, _ = plan_graphs(load_profile("pyannote_campplus"))


def exported(graph, network, shape, folder):
    torch.manual_seed(4)
    path = folder / graph.file
    write(replace(graph, shapes=[shape]), network().eval().requires_grad_(False), path)
    return onnx.load(path)


@pytest.fixture(scope="module")
def segmentation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segmentation")
    return exported(SEGMENTATION, lambda: PyanNet(7), (2, 4_000), folder)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory):
    return exported(
        TRUNK, lambda: CamppTrunk(layers=(2, 2, 2)), (2, 333, 80), tmp_path_factory.mktemp("trunk")
    )


def types(model):
    """Element type of every tensor; onnx.checker and strict inference find a node with mixed types."""
    graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    found = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


def operators(model, kind):
    of = types(model)
    return Counter(node.op_type for node in model.graph.node if of.get(node.output[0]) == kind)


def test_segmentation_keeps_waveform_norms_recurrence_and_softmax_in_fp32(segmentation):
    half = to_half(segmentation)
    in_half, in_full = operators(half, TensorProto.FLOAT16), operators(half, TensorProto.FLOAT)
    assert (in_half["Conv"], in_half["MatMul"], in_full["Conv"]) == (0, 3, 3)  # instance norms read these
    for kind in ("InstanceNormalization", "LSTM", "LogSoftmax"):
        assert in_full[kind] == Counter(node.op_type for node in segmentation.graph.node)[kind]
        assert not in_half[kind]
    of = types(half)
    waveform_layers = {of.get(name) for name in ancestors(half.graph.node, FULL_PRECISION)}
    assert TensorProto.FLOAT in waveform_layers
    assert TensorProto.FLOAT16 not in waveform_layers


def test_trunk_keeps_sums_over_frames_in_fp32(trunk):
    half = to_half(trunk)
    in_half, in_full = operators(half, TensorProto.FLOAT16), operators(half, TensorProto.FLOAT)
    assert not in_full["Conv"]
    assert in_half["Conv"] == Counter(node.op_type for node in trunk.graph.node)["Conv"]
    assert in_full["MatMul"] == 12  # segment means and their way back, twice in each of six layers
    assert not set(in_half) & {"MatMul", "ReduceSum", "Sigmoid", "BatchNormalization", "Div"}


@pytest.mark.parametrize(
    ("name", "shape", "limit"), [("segmentation", (3, 4_000), 0.005), ("trunk", (1, 400, 80), 0.02)]
)
def test_results_are_near_fp32_and_inputs_and_outputs_keep_their_type(request, name, shape, limit):
    model = request.getfixturevalue(name)
    noise = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    half = to_half(model)
    results = []
    for graph in (model, half):
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        results.append(session.run(None, {session.get_inputs()[0].name: noise})[0])
    assert results[1].dtype == np.float32
    difference = np.abs(results[0] - results[1]).max() / np.abs(results[0]).max()
    assert 1e-6 < difference < limit  # it is rounded, and not much
    shapes = Shapes((1, *shape[1:]), shape, shape)
    assert difference / 3 < prove_half(half, model, shapes) < limit


def test_the_same_model_gives_the_same_bytes(trunk):
    first, second = (to_half(trunk).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second
    assert onnx.load_from_string(first).metadata_props == trunk.metadata_props


def chain(weight):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["clipped"]),
        helper.make_node("Softmax", ["clipped"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    weights = numpy_helper.from_array(np.broadcast_to(np.float32(weight), (2, 2)), "w")
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_follows_a_product_saves_casts():
    names = [node.op_type for node in to_half(chain(0.5)).graph.node]
    assert names == ["Cast", "MatMul", "Relu", "Cast", "Softmax"]


def test_the_proof_finds_another_network():
    shapes = Shapes((1, 2), (4, 2), (4, 2))
    assert prove_half(to_half(chain(0.5)), chain(0.5), shapes) < 0.001
    with pytest.raises(SetupError, match=r"E_BUILD_PRECISION\|FP16 differs from FP32 by .*; use fp32"):
        prove_half(to_half(chain([[0.5, 90.0], [0.5, 0.5]])), chain(0.5), shapes)


def test_a_product_that_an_instance_norm_reads_stays_in_fp32():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["first"]),
        helper.make_node("Relu", ["first"], ["clipped"]),
        helper.make_node("InstanceNormalization", ["clipped", "one", "one"], ["even"]),
        helper.make_node("Conv", ["even", "w"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, 5]) for name in ("x", "y")]
    weights = [
        numpy_helper.from_array(np.ones((1,) * rank, np.float32), name)
        for rank, name in [(3, "w"), (1, "one")]
    ]
    graph = helper.make_graph(nodes, "norm", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    names = [node.op_type for node in to_half(model).graph.node]
    assert names == ["Conv", "Relu", "InstanceNormalization", "Cast", "Conv", "Cast"]


def test_a_weight_that_fp16_cannot_hold_keeps_its_product_in_fp32():
    model = chain(1e5)
    assert [node.op_type for node in to_half(model).graph.node] == ["MatMul", "Relu", "Softmax"]
