"""The TensorRT lane on a strict fake of the runtime, which runs the same ONNX file on the bound memory."""

import gc
import inspect
import random
from dataclasses import replace
from types import ModuleType

import fake_tensorrt
import pytest
import torch

from diar.artifacts import file_sha256
from diar.errors import InternalError, SetupError
from diar.lanes import tensorrt_api
from diar.lanes.tensorrt import TensorRtLane
from diar.lanes.tensorrt_module import load_module
from diar.networks.campplus import CamppTrunk
from diar.networks.segmentation import PyanNet
from diar.plans import Plan, Shapes
from diar.profile import load_profile
from diar.tools.export_onnx import plan_graphs, write

CPU = torch.device("cpu")
WINDOW = 4_000  # samples: a real window would only take longer
SEGMENTATION, TRUNK, _ = plan_graphs(load_profile("pyannote_campplus"))
MOST_WINDOWS = load_profile("pyannote_campplus").geometry.windows_per_block  # 32


@pytest.fixture(scope="module")
def onnx_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    torch.manual_seed(3)
    segmentation = PyanNet(7, lstm_size=8, lstm_layers=1).eval().requires_grad_(False)
    trunk = CamppTrunk(layers=(1, 1, 1), growth=8, initial_channels=16).eval().requires_grad_(False)
    write(replace(SEGMENTATION, shapes=[(2, WINDOW)]), segmentation, folder / "segmentation.onnx")
    write(replace(TRUNK, shapes=[(1, 120, 80)]), trunk, folder / "trunk.onnx")
    return folder


@pytest.fixture
def make(tmp_path, onnx_files):
    """Open a lane on a fake plan. fault: of the fake. Closed with the test."""
    lanes = []
    fake_tensorrt.freed.clear()

    def make_lane(network="segmentation", fault="", stream=lambda: 7, flavour="tensorrt", content=None):
        onnx = onnx_files / f"{network}.onnx"
        least, most = ((1, WINDOW), (MOST_WINDOWS, WINDOW))
        if network == "trunk":
            least, most = ((1, 100, 80), (1, 4_098, 80))
        file = tmp_path / f"{network}.plan"
        file.write_bytes(content or fake_tensorrt.fake_plan(onnx, least, most, fault))
        plan = Plan(
            file=file.name,
            sha256=file_sha256(file),
            onnx=str(onnx),
            onnx_sha256=file_sha256(onnx),
            network=network,
            profile="P",
            precision="fp16",
            flavour=flavour,
            version=fake_tensorrt.__version__,
            capability="sm89",
            gpu="",
            shapes=Shapes(least, most, most),
            built="2026-11-29T21:00:00Z",
            build_s=1.0,
        )
        lanes.append(TensorRtLane(plan, tmp_path, CPU, fake_tensorrt, stream))
        return lanes[-1]

    return make_lane


def expect(onnx_files, network, inputs):
    session = fake_tensorrt.session(onnx_files / f"{network}.onnx")
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: inputs.numpy()})[0])


def test_every_number_of_windows_in_changing_order_is_exact(make, onnx_files):
    lane = make()
    order = [*range(1, MOST_WINDOWS + 1), 1, MOST_WINDOWS, 1]
    random.Random(0).shuffle(order)
    span = torch.randn(WINDOW + (MOST_WINDOWS - 1) * 400)
    for count in order:
        windows = span[: WINDOW + (count - 1) * 400].unfold(
            0, WINDOW, 400
        )  # a view, as block.py hands it over
        assert not windows.is_contiguous() or count == 1
        before = windows.clone()
        outputs = lane.run(windows)
        assert torch.equal(windows, before)
        assert torch.equal(outputs, expect(onnx_files, "segmentation", windows.contiguous()))


def test_every_length_of_a_stretch_in_changing_order_is_exact(make, onnx_files):
    lane = make("trunk")
    for frames in (998, 100, 4_098, 300, 299, 100):
        fbank = torch.randn(1, frames, 80)
        assert torch.equal(lane.run(fbank), expect(onnx_files, "trunk", fbank))


def test_a_result_outlives_the_next_run(make):
    lane = make()
    first = lane.run(torch.randn(2, WINDOW))
    kept = first.clone()
    lane.run(torch.randn(2, WINDOW))
    assert torch.equal(first, kept)


def test_the_name_says_flavour_and_precision(make):
    assert make().name == "tensorrt:fp16"
    assert make(flavour="tensorrt_rtx").name == "tensorrt_rtx:fp16"


def test_rtx_keeps_the_same_kernels_for_ever(make):
    config = make(flavour="tensorrt_rtx")._context.config
    none = fake_tensorrt.DynamicShapesKernelSpecializationStrategy.NONE
    assert config.dynamic_shapes_kernel_specialization_strategy is none
    assert make()._context.config is None


def test_close_frees_context_engine_and_runtime_in_this_order(make):
    lane = make()
    lane.run(torch.randn(1, WINDOW))
    assert fake_tensorrt.freed == []
    lane.close()
    gc.collect()
    assert fake_tensorrt.freed == ["context", "engine", "runtime"]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("create_execution_context", "gives no execution context; tensorrt says: out of memory"),
        (
            "get_tensor_mode",
            "has tensors ['waveform', 'log_probabilities'], expected one input and one output",
        ),
        (
            "get_tensor_dtype",
            "has tensors ['waveform', 'log_probabilities'], expected one input and one output",
        ),
        ("get_tensor_shape", "refuses the shape [-1, 3] of log_probabilities for [32, 4000]"),
        ("set_input_shape", "refuses set_input_shape(waveform, [32, 4000])"),
        ("set_tensor_address(waveform)", "does not take the address of waveform"),
        ("set_tensor_address(log_probabilities)", "does not take the address of log_probabilities"),
    ],
)
def test_what_fails_at_load_is_named(make, fault, expected):
    with pytest.raises(SetupError) as caught:
        make(fault=fault)
    assert caught.value.word == "E_PLAN_LOAD"
    assert expected in caught.value.text
    assert "tensorrt says: " in caught.value.text


def test_bytes_that_are_no_plan_are_refused_with_tensorrts_reason(make):
    with pytest.raises(
        SetupError, match=r"E_PLAN_LOAD\|.*is no usable plan; .* says: magic tag does not match"
    ):
        make(content=b"altered")


def test_a_call_that_fails_while_running_is_named(make):
    lane = make(fault="execute_async_v3")
    with pytest.raises(InternalError, match=r"E_INTERNAL_LANE\|segmentation.plan refuses execute_async_v3; "):
        lane.run(torch.randn(1, WINDOW))


@pytest.mark.parametrize("shape", [(33, WINDOW), (0, WINDOW), (1, WINDOW + 1), (1, WINDOW, 1)], ids=str)
def test_a_shape_outside_the_plan_is_refused_and_the_lane_goes_on(make, onnx_files, shape):
    lane = make()
    takes = r"; the plan takes \[1, 4000\] to \[32, 4000\]; tensorrt says: invalid shape"
    with pytest.raises(InternalError, match=rf"E_INTERNAL_LANE\|.*set_input_shape.*{takes}"):
        lane.run(torch.zeros(shape))
    windows = torch.randn(2, WINDOW)
    assert torch.equal(lane.run(windows), expect(onnx_files, "segmentation", windows))


def test_the_default_stream_is_refused(make):
    lane = make(stream=lambda: 0)
    with pytest.raises(InternalError, match=r"E_INTERNAL_LANE\|.*is run on the default stream"):
        lane.run(torch.randn(1, WINDOW))


def test_a_missing_or_foreign_tensorrt_is_named_with_its_installation(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    with pytest.raises(
        SetupError, match=r"E_TENSORRT\|tensorrt cannot be imported .*; pip install tensorrt-cu12=="
    ):
        load_module("tensorrt")
    empty = ModuleType("tensorrt")  # what a folder of type stubs looks like at run time
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", empty)
    with pytest.raises(SetupError, match=r"E_TENSORRT\|tensorrt cannot be imported .*__version__"):
        load_module("tensorrt")
    empty.__version__ = "8.6.1"
    with pytest.raises(SetupError, match=r"E_TENSORRT\|expected tensorrt 10\.x, found 8\.6\.1; pip install"):
        load_module("tensorrt")


def public_names(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("fake", "api"),
    [
        (fake_tensorrt.Runtime, tensorrt_api.Runtime),
        (fake_tensorrt._Engine, tensorrt_api.Engine),
        (fake_tensorrt._Context, tensorrt_api.Context),
    ],
)
def test_the_fake_has_just_the_calls_that_the_types_allow(fake, api):
    assert public_names(fake) == public_names(api) | set(api.__annotations__)
    for name in public_names(api):
        mine, theirs = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (fake, api))
        assert mine == theirs, name
