"""Lanes: what a wish leads to, one warning where ``auto`` falls back, answers from the input alone."""

import logging
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from diar.errors import SetupError
from diar.lanes import choose, exact
from diar.lanes.choose import choose_lane
from diar.lanes.exact import ExactLane
from diar.network_files import onnx_file

CPU = torch.device("cpu")
ROWS, SIZE = 40, 6


def double():
    return nn.Linear(SIZE, SIZE).eval().requires_grad_(False)


@pytest.fixture
def engines(tmp_path, profile):
    """A folder with an ONNX file for each network: it doubles its input."""
    onnx = pytest.importorskip("onnx")
    shape = ["rows", SIZE]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "x"], ["y"])],
        "double",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    for network in ("segmentation", "trunk"):
        path = onnx_file(profile, network, tmp_path)
        path.parent.mkdir(exist_ok=True)
        onnx.save(model, path)
    return tmp_path


@pytest.fixture
def lane(profile, engines):
    """Choose a lane for the segmentation network."""

    def lane(wish, device=CPU, profile=profile, engines=engines):
        return choose_lane(wish, "segmentation", double, profile, engines, device, 1)

    return lane


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ("exact", "exact"),
        ("openvino", "openvino:fp32"),
        ("openvino:fp32", "openvino:fp32"),
        ("auto", "openvino:fp32"),
    ],
)
def test_a_wish_leads_to_its_lane_without_a_word(lane, caplog, monkeypatch, wish, name):
    pytest.importorskip("openvino")
    monkeypatch.setattr(choose, "has_amx", lambda: False)  # with it, the default profile runs in BF16
    assert lane(wish).name == name
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    ("accepted", "amx", "name"),
    [
        ("", True, "openvino:fp32"),
        ("2025-01-01: 0.2 % of frames", False, "openvino:fp32"),
        ("2025-01-01: 0.2 % of frames", True, "openvino:bf16"),
    ],
)
def test_bf16_is_taken_where_it_is_fast_and_accepted(lane, profile, monkeypatch, accepted, amx, name):
    pytest.importorskip("openvino")
    monkeypatch.setattr(choose, "has_amx", lambda: amx)
    accepting = msgspec.structs.replace(profile, bf16_accepted=accepted)
    for wish in ("auto", "openvino"):
        assert lane(wish, profile=accepting).name == name
    assert lane("openvino:fp32", profile=accepting).name == "openvino:fp32"


@pytest.mark.parametrize(
    "wish", ["", "Exact", "onnxruntime", "openvino:int8", "openvino:", "exact:fp32", "auto:"]
)
def test_an_unknown_wish_is_answered_with_the_known_ones(lane, wish):
    with pytest.raises(SetupError) as caught:
        lane(wish)
    assert caught.value.word == "E_LANE"
    assert repr(wish) in caught.value.text
    assert "auto, exact, openvino" in caught.value.text


@pytest.mark.parametrize("wish", ["openvino", "openvino:fp32", "openvino:bf16"])
def test_openvino_on_a_gpu_is_refused_with_both_named(lane, wish):
    with pytest.raises(SetupError, match=rf"E_LANE\|lane '{wish}' runs on .*, got device cuda:0"):
        lane(wish, torch.device("cuda:0"))


def test_without_an_onnx_file_auto_warns_once_and_runs_exact(lane, caplog, tmp_path):
    pytest.importorskip("openvino")
    chosen = lane("auto", engines=tmp_path / "nowhere")
    assert chosen.name == "exact"
    (warning,) = warnings_of(caplog)
    assert warning.startswith("segmentation runs in the exact lane: E_ONNX|no file ")
    assert "scripts/export_onnx" in warning


def test_without_openvino_auto_warns_once_and_runs_exact(lane, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "diar.lanes.openvino", None)  # an import of it raises ImportError
    assert lane("auto").name == "exact"
    assert len(warnings_of(caplog)) == 1


def test_what_was_asked_for_by_name_does_not_fall_back(lane, caplog, monkeypatch, tmp_path):
    with pytest.raises(SetupError, match="E_ONNX"):
        lane("openvino", engines=tmp_path / "nowhere")
    monkeypatch.setitem(sys.modules, "diar.lanes.openvino", None)
    with pytest.raises(ImportError):
        lane("openvino:fp32")
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("content", [b"", b"no graph at all"], ids=["empty", "garbage"])
def test_a_file_that_is_no_graph_is_named(lane, profile, engines, caplog, content):
    pytest.importorskip("openvino")
    path = onnx_file(profile, "segmentation", engines)
    path.write_bytes(content)
    with pytest.raises(SetupError, match=r"E_ONNX\|OpenVINO cannot load .*pyannet.onnx"):
        lane("openvino")
    assert lane("auto").name == "exact"
    assert len(warnings_of(caplog)) == 1


def test_each_network_has_a_file_of_its_own(profile, tmp_path):
    files = {onnx_file(profile, network, tmp_path) for network in ("segmentation", "trunk")}
    assert {file.name for file in files} == {"pyannet.onnx", "campplus_trunk.onnx"}
    assert {file.parent for file in files} == {tmp_path / "onnx"}


@pytest.mark.parametrize("wish", ["exact", "auto"])
def test_without_a_pytorch_network_there_is_no_exact_lane(profile, tmp_path, caplog, wish):
    pytest.importorskip("openvino")
    words = {"exact": r"E_LANE\|the segmentation .* is an ONNX file", "auto": r"E_ONNX\|no file "}[wish]
    with pytest.raises(SetupError, match=words):
        choose_lane(wish, "segmentation", None, profile, tmp_path, CPU, 1)
    assert warnings_of(caplog) == []


def test_without_a_pytorch_network_auto_takes_openvino(profile, engines):
    pytest.importorskip("openvino")
    assert choose_lane("auto", "segmentation", None, profile, engines, CPU, 1).name == "openvino:fp32"


def rows():
    return torch.from_numpy(np.random.default_rng(1).normal(size=(ROWS, SIZE)).astype(np.float32))


@pytest.mark.parametrize("num_rows", [1, 7, 8, 9, 16, 17, 40])
def test_any_number_of_rows_is_answered_row_by_row(lane, num_rows):
    pytest.importorskip("openvino")
    inputs = rows()[:num_rows]
    torch.testing.assert_close(lane("openvino").run(inputs), 2 * inputs, rtol=0, atol=0)
    torch.manual_seed(0)
    module = double()
    torch.testing.assert_close(ExactLane(module, CPU).run(inputs), module(inputs))


def test_openvino_reads_views_and_answers_with_memory_of_its_own(lane):
    pytest.importorskip("openvino")
    chosen = lane("openvino")
    samples = torch.arange(20.0)
    windows = samples.unfold(0, SIZE, 2)  # a view, as block.py hands it over
    first = chosen.run(windows)
    torch.testing.assert_close(first, 2 * windows)
    chosen.run(torch.zeros(len(windows), SIZE))
    torch.testing.assert_close(first, 2 * windows)


def test_the_exact_lane_takes_a_few_rows_at_a_time():
    seen = []

    class Counts(nn.Module):
        def forward(self, part):
            seen.append(len(part))
            return part

    ExactLane(Counts(), CPU).run(rows()[:20])
    assert seen == [exact.WINDOWS_AT_ONCE, exact.WINDOWS_AT_ONCE, 4]


def test_the_exact_lane_leaves_no_reduced_precision_switched_on():
    ExactLane(double(), CPU)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark


def test_closing_drops_the_network(lane):
    pytest.importorskip("openvino")
    for wish in ("exact", "openvino"):
        chosen = lane(wish)
        chosen.close()
        with pytest.raises(AttributeError):
            chosen.run(rows())


BOTH_AT_ONCE = """
import sys, torch
from pathlib import Path
from diar.lanes.openvino import OpenVinoLane
lanes = [OpenVinoLane(Path(sys.argv[1]), "fp32", 2) for _ in range(2)]
answers = [lane.start(torch.zeros(64, 6)) for lane in lanes]
for answer in answers:
    assert answer().shape == (64, 6)
"""


@pytest.mark.slow
def test_two_lanes_at_once_in_a_new_process_do_not_wait_for_each_other(profile, engines):
    pytest.importorskip("openvino")
    file = onnx_file(profile, "segmentation", engines)
    for _ in range(6):  # hung two times in five where the bindings were first used by threads
        subprocess.run([sys.executable, "-c", BOTH_AT_ONCE, file], check=True, timeout=60)
