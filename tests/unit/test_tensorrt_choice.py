"""What a wish leads to on a GPU: a plan that agrees, a refusal, or the exact lane with one warning."""

import logging

import fake_tensorrt
import pytest
import torch
from torch import nn

from diar.artifacts import file_sha256
from diar.errors import SetupError
from diar.lanes import tensorrt
from diar.lanes.choose import choose_lane
from diar.lanes.shapes import input_shapes
from diar.plans import Host, Plan, enter_plan

onnx = pytest.importorskip("onnx")
GPU = torch.device("cuda:0")  # never touched: what is asked of it is answered by the fakes
COMMAND = "scripts/build_engines --profile pyannote_campplus --gpu local"


@pytest.fixture
def engines(tmp_path, profile):
    """An engines folder whose segmentation network gives its input back, with an FP16 plan of it."""
    shapes = input_shapes(profile, "segmentation")
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", shapes.most[1]])
        for name in "xy"
    ]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "abs", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "onnx" / "pyannet.fp16.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    file = tmp_path / "pyannet.fp16.sm89.tensorrt10.5.0.plan"
    file.write_bytes(fake_tensorrt.fake_plan(path, shapes.least, shapes.most))
    plan = Plan(
        file=file.name,
        sha256=file_sha256(file),
        onnx="onnx/pyannet.fp16.onnx",
        onnx_sha256=file_sha256(path),
        network="pyannet",
        profile=profile.name,
        precision="fp16",
        flavour="tensorrt",
        version=fake_tensorrt.__version__,
        capability="sm89",
        gpu="NVIDIA L4",
        shapes=shapes,
        built="2026-11-29T21:00:00Z",
        build_s=1.0,
    )
    enter_plan(tmp_path, plan)
    return tmp_path


@pytest.fixture
def running(monkeypatch):
    """Say which GPU and which TensorRT there are."""

    def set_running(gpu="NVIDIA L4", capability="sm89", version=fake_tensorrt.__version__):
        monkeypatch.setattr(tensorrt, "host_of", lambda device: Host(gpu, capability))
        monkeypatch.setattr(tensorrt, "installed_version", lambda flavour: version)
        monkeypatch.setattr(tensorrt, "load_module", lambda flavour: fake_tensorrt)

    set_running()
    return set_running


@pytest.fixture
def choose(profile, engines):
    def choose_segmentation(wish, network="segmentation", device=GPU):
        return choose_lane(wish, network, nn.Identity, profile, engines, device, 1)

    return choose_segmentation


def warning_of(caplog):
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    return record.getMessage()


def test_a_plan_that_agrees_is_opened(running, engines, profile):
    path = engines / "onnx" / "pyannet.onnx"
    shapes = input_shapes(profile, "segmentation")
    lane = tensorrt.open_plan(engines, path, shapes, profile.name, None, torch.device("cpu"))
    assert lane.name == "tensorrt:fp16"


DISAGREEMENTS = [
    pytest.param({"gpu": "NVIDIA L40S"}, "E_PLAN_GPU", "'NVIDIA L40S'", id="another-model"),
    pytest.param({"capability": "sm90"}, "E_PLAN_GPU", "this GPU is sm90", id="another-capability"),
    pytest.param({"version": "10.7.0"}, "E_PLAN_VERSION", "here is tensorrt 10.7.0", id="another-build"),
    pytest.param({"version": None}, "E_PLAN_VERSION", "here is no tensorrt", id="none-installed"),
]


@pytest.mark.parametrize(("running_here", "word", "names"), DISAGREEMENTS)
def test_auto_runs_exact_with_one_line_that_says_why(choose, running, caplog, running_here, word, names):
    running(**running_here)
    assert choose("auto").name == "exact"
    line = warning_of(caplog)
    assert line.startswith(f"segmentation runs in the exact lane: {word}|plan pyannet.fp16.sm89.tensorrt10")
    assert names in line
    assert line.endswith(f"; rebuild it with {COMMAND} --flavour tensorrt --precision fp16")
    assert "\n" not in line


@pytest.mark.parametrize("wish", ["tensorrt", "tensorrt:fp16"])
@pytest.mark.parametrize(("running_here", "word", "names"), DISAGREEMENTS)
def test_tensorrt_by_name_refuses_instead(choose, running, caplog, wish, running_here, word, names):
    running(**running_here)
    with pytest.raises(SetupError) as caught:
        choose(wish)
    assert caught.value.word == word
    assert names in caught.value.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("pyannet.fp16.sm89.tensorrt10.5.0.plan", "E_PLAN_FILE"),
        ("onnx/pyannet.fp16.onnx", "E_PLAN_ONNX"),
        ("MANIFEST.json", "E_PLAN_MANIFEST"),
    ],
)
def test_an_altered_file_is_never_run(choose, running, engines, caplog, name, word):
    path = engines / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(SetupError, match=rf"{word}\|"):
        choose("tensorrt")
    assert choose("auto").name == "exact"
    assert word in warning_of(caplog)


def test_without_a_plan_the_command_that_builds_it_is_named(choose, running, caplog):
    assert choose("auto", "trunk").name == "exact"
    assert warning_of(caplog).endswith(f"; build it with {COMMAND}")
    with pytest.raises(SetupError, match=r"E_PLAN_MISSING\|no fp32 plan of pyannet .* --precision fp32"):
        choose("tensorrt:fp32")


@pytest.mark.parametrize("wish", ["tensorrt", "tensorrt:fp32", "tensorrt:fp16"])
def test_tensorrt_on_a_cpu_is_refused_with_both_named(choose, wish):
    with pytest.raises(SetupError, match=rf"E_LANE\|lane '{wish}' runs on cuda, got device cpu"):
        choose(wish, device=torch.device("cpu"))
