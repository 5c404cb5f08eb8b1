"""The builder, with the real TensorRT for RTX: it builds ahead of time on a machine without a GPU."""

import inspect
import re
import resource
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from diar.artifacts import file_sha256
from diar.errors import SetupError
from diar.fbank import num_fbank_frames
from diar.lanes import tensorrt_api
from diar.lanes.shapes import LEAST_TRUNK_FRAMES, input_shapes, plan_shapes
from diar.lanes.tensorrt_module import load_module
from diar.networks.segmentation import PyanNet
from diar.plans import MANIFEST, Host, find_plan, read_manifest
from diar.profile import Checks, load_profile, profile_names
from diar.pure_passes import PURE_FRAMES_STEP, fill_up
from diar.spans import Geometry
from diar.tools import build_engines
from diar.tools.build_engines import build_engine, prepare_onnx
from diar.tools.engine_builder import targets
from diar.tools.engine_target import Target
from diar.tools.export_onnx import plan_graphs, write

PROFILE = load_profile("pyannote_campplus")
SM89 = Target("sm89", "", "tensorrt_rtx", "fp16")


@pytest.fixture(scope="module")
def rtx():
    try:
        return load_module("tensorrt_rtx")
    except SetupError as err:
        pytest.skip(err.text)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A segmentation network of random weights, of the real window but with one small recurrent layer."""
    torch.manual_seed(6)
    network = PyanNet(7, lstm_size=8, lstm_layers=1).eval().requires_grad_(False)
    path = tmp_path_factory.mktemp("exported") / "pyannet.onnx"
    write(replace(plan_graphs(PROFILE)[0], shapes=[(2, 160_000)]), network, path)
    return path.read_bytes()


@pytest.fixture
def engines(tmp_path, exported):
    """An engines folder with that network."""
    onnx_dir = tmp_path / "build" / "onnx"
    onnx_dir.mkdir(parents=True)
    (onnx_dir / "pyannet.onnx").write_bytes(exported)
    return tmp_path


def build(engines, *arguments):
    return build_engines.main(["--engines-dir", str(engines), "--network", "segmentation", *arguments])


RTX_SM89 = ("--gpu", "sm89", "--flavour", "tensorrt_rtx")


def test_a_plan_is_built_entered_and_found_again(rtx, engines, capsys):
    assert build(engines, *RTX_SM89) == 0
    name = f"pyannet.fp16.sm89.tensorrt_rtx{rtx.__version__}.plan"
    line = capsys.readouterr().out
    path = re.escape(str(engines / "build" / name))
    assert re.fullmatch(
        rf"{path}: [\d.]+ MB in [\d.]+ s, for inputs of \[1, 160000\] to \[32, 160000\]\n", line
    )
    folder = engines / "build"
    (plan,) = read_manifest(folder)
    assert (plan.file, plan.sha256) == (name, file_sha256(folder / name))
    assert (plan.onnx, plan.onnx_sha256) == (
        "onnx/pyannet.fp16.onnx",
        file_sha256(folder / "onnx" / "pyannet.fp16.onnx"),
    )
    onnx_file, shapes = folder / "onnx" / "pyannet.onnx", input_shapes(PROFILE, "segmentation")
    host, versions = Host("NVIDIA L4", "sm89"), {"tensorrt_rtx": rtx.__version__}
    assert find_plan(folder, onnx_file, shapes, PROFILE.name, None, host, versions.get) == plan
    assert build(engines, *RTX_SM89) == 0
    assert capsys.readouterr().out == f"{folder / name}: already there\n"


def test_another_network_is_built_anew(rtx, engines, capsys):
    assert build(engines, *RTX_SM89) == 0
    path = engines / "build" / "onnx" / "pyannet.onnx"
    model = onnx.load(path)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "classifier.bias")
    bias.CopyFrom(onnx.numpy_helper.from_array(np.ones(7, np.float32), bias.name))
    onnx.save(model, path)
    capsys.readouterr()
    assert build(engines, *RTX_SM89) == 0
    assert " MB in " in capsys.readouterr().out


@pytest.fixture
def planted(engines):
    """The network with an operator in its middle that TensorRT does not have."""
    path = engines / "build" / "onnx" / "pyannet.onnx"
    model = onnx.load(path)
    last = model.graph.node[-1]
    planted = helper.make_node("Det", [last.input[0]], ["determinant"], name="/planted/Det")
    last.input[0] = "determinant"
    model.graph.node.insert(len(model.graph.node) - 1, planted)
    onnx.save(model, path)
    return engines


def failure(engines, capsys, *arguments):
    """The one line that the failing command prints behind its progress; no plan must be left."""
    assert build(engines, *arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not re.match(r"\S+\.(plan|onnx): ", line)]
    assert len(lines) == 1
    assert not [*engines.rglob("*.plan"), *engines.rglob(MANIFEST)]
    return lines[0]


def test_an_operator_that_tensorrt_lacks_is_named_with_its_node(rtx, planted, capsys):
    line = failure(planted, capsys, *RTX_SM89, "--precision", "fp32")
    assert line.startswith(f"error: tensorrt_rtx {rtx.__version__} cannot parse {planted}")
    assert "pyannet.onnx: node '/planted/Det', operator Det (UNSUPPORTED_NODE: false)" in line


def test_a_network_that_fp16_overflows_is_refused(rtx, engines, capsys):
    path = engines / "build" / "onnx" / "pyannet.onnx"
    model = onnx.load(path)
    name = next(node.input[1] for node in model.graph.node if node.name == "/linear.0/MatMul")
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    weight.CopyFrom(onnx.numpy_helper.from_array(5e4 * np.ones(weight.dims, np.float32), weight.name))
    onnx.save(model, path)
    line = failure(engines, capsys, *RTX_SM89)
    assert line == "error: FP16 overflows in /linear.0/MatMul_output_0; use fp32"
    assert not list(engines.rglob("*.fp16.onnx"))


def test_a_capability_without_target_is_refused_with_those_there_are(rtx, engines, capsys):
    assert "sm90" not in targets(rtx)
    line = failure(engines, capsys, "--gpu", "H100", "--flavour", "tensorrt_rtx")
    assert "has no target sm90, it has sm75, sm80, " in line
    assert "--flavour tensorrt on a machine with that GPU" in line


def test_a_missing_onnx_file_is_named_with_the_command(rtx, tmp_path, capsys):
    line = failure(tmp_path, capsys, *RTX_SM89)
    path = tmp_path / "build" / "onnx" / "pyannet.onnx"
    assert line == f"error: no file {path}; scripts/export_onnx --profile pyannote_campplus makes it"


def test_a_file_that_is_no_graph_is_named(rtx, engines, capsys):
    path = engines / "build" / "onnx" / "pyannet.onnx"
    path.write_bytes(b"no graph at all")
    line = failure(engines, capsys, *RTX_SM89)
    assert line == f"error: {path} is no ONNX file; scripts/export_onnx makes it anew"
    assert "MODEL_DESERIALIZE_FAILED" in failure(engines, capsys, *RTX_SM89, "--precision", "fp32")


def test_a_network_of_another_window_is_refused(rtx, engines, capsys):
    path = engines / "build" / "onnx" / "pyannet.onnx"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 9]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "short", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    line = failure(engines, capsys, *RTX_SM89)
    assert line.startswith("error: ONNX Runtime cannot run the network: ")
    line = failure(engines, capsys, *RTX_SM89, "--precision", "fp32")
    assert line.endswith("takes [('x', (-1, 9))], expected one input of [1, 160000] to [32, 160000]")


def test_too_small_a_workspace_is_one_line(rtx, engines, capsys):
    line = failure(engines, capsys, *RTX_SM89, "--workspace-mib", "1")
    assert "pyannet.fp16.onnx: " in line
    assert "workspace" in line


@contextmanager
def small_files(num_bytes):
    """Let the kernel fail every write beyond ``num_bytes`` of a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_leaves_no_half_plan(rtx, engines, capsys):
    path = engines / "build" / "onnx" / "pyannet.onnx"
    shapes = input_shapes(PROFILE, "segmentation")
    size = prepare_onnx(path, "fp16", shapes, lambda line: None).stat().st_size
    with small_files(size):
        line = failure(engines, capsys, *RTX_SM89)
    assert line.startswith("error: cannot write ")
    assert not list(engines.rglob(".*"))


def test_a_plan_without_its_manifest_entry_is_built_again(rtx, engines, capsys):
    assert build(engines, *RTX_SM89) == 0
    (engines / "build" / MANIFEST).unlink()
    line = build_engine(PROFILE, "segmentation", engines / "build", SM89, workspace_mib=512)
    assert " MB in " in line


def test_a_missing_tensorrt_is_named_with_its_installation(engines, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    target = replace(SM89, flavour="tensorrt", gpu="NVIDIA L4")
    with pytest.raises(SetupError, match=r"E_TENSORRT\|tensorrt cannot be imported .*; pip install"):
        build_engine(PROFILE, "segmentation", engines / "build", target, workspace_mib=64)


def test_one_trunk_plan_is_long_enough_for_every_profile():
    for profile in map(load_profile, profile_names()):
        assert plan_shapes(PROFILE, "trunk").covers(input_shapes(profile, "trunk"))


def test_a_plan_covers_every_pure_pass():
    assert LEAST_TRUNK_FRAMES == PURE_FRAMES_STEP
    one_window = Geometry(160_000, 16_000, 1, 589, 270, 991, 3, 2)
    profile = msgspec.structs.replace(PROFILE, geometry=one_window, checks=Checks(classes=7, span=160_000))
    longest = fill_up(torch.zeros(num_fbank_frames(160_000), 80))
    assert input_shapes(profile, "trunk").most == (1, len(longest), 80)


def test_our_types_are_those_of_the_real_module(rtx):
    kinds = {
        tensorrt_api.Context: rtx.IExecutionContext,
        tensorrt_api.Engine: rtx.ICudaEngine,
        tensorrt_api.Runtime: rtx.Runtime,
        tensorrt_api.ParserError: rtx.ParserError,
        tensorrt_api.OnnxParser: rtx.OnnxParser,
        tensorrt_api.Builder: rtx.Builder,
    }
    assert [name for name in tensorrt_api.TensorRt.__annotations__ if not hasattr(rtx, name)] == []
    for ours, theirs in kinds.items():
        assert [name for name in ours.__annotations__ if not hasattr(theirs, name)] == [], ours
        methods = {name: value for name, value in vars(ours).items() if inspect.isfunction(value)}
        for name, method in methods.items():
            if name.startswith("_"):
                continue
            signatures = getattr(theirs, name).__doc__  # the bindings write theirs in their first lines
            for parameter in inspect.signature(method).parameters:
                assert re.search(rf"\b{parameter}: ", signatures), f"{ours.__name__}.{name}({parameter})"
