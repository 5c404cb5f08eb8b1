"""check_network: what meets the contract is installed, each fault is a line with both sides."""

import re

import numpy as np
import onnx
import pytest
import torch
from coded import coded_network, example_profile
from onnx import helper

from diar.networks.reference import ReferenceConformer
from diar.profile import load_profile
from diar.tools import check_network
from diar.tools.export_onnx import plan_graphs, write

SPAN16 = load_profile("span16")


@pytest.fixture
def wave16(tmp_path):
    """The example of docs/bring_your_own.md: (its file, the profile)."""
    file = tmp_path / "wave16.toml"
    file.write_text(example_profile())
    return file, load_profile(str(file))


@pytest.fixture
def check(tmp_path, wave16, capsys):
    """Run the command on a model; gives its exit code and its lines."""

    def run(model, *arguments, profile=wave16[0]):
        file = tmp_path / "model.onnx"
        onnx.save(model, file)
        engines = tmp_path / "engines"
        status = check_network.main(
            [str(file), "--profile", str(profile), "--engines-dir", str(engines), *arguments]
        )
        printed = capsys.readouterr()
        return status, (printed.out + printed.err).splitlines()

    return run


def installed(tmp_path):
    return sorted(file.name for file in tmp_path.rglob("engines/build/onnx/*"))


def test_a_network_that_meets_the_contract_is_installed(check, wave16, tmp_path):
    model = coded_network(wave16[1].geometry)
    status, lines = check(model)
    assert status == 0
    assert not [line for line in lines if line.startswith("BAD")]
    assert (
        "ok   input: got waveform, float32 (free, 256000), expected one, float32 (n, 256000) with n free"
        in lines
    )
    assert "ok   silent input, shape: got (8, 799, 11), expected (8, 799, 11)" in lines
    assert [line for line in lines if line.startswith(("ok   parser of", "?    parser of"))]
    assert lines[-1].startswith(
        f"installed as {tmp_path}/engines/build/onnx/wave16_segmentation.onnx, sha256 "
    )
    assert installed(tmp_path) == ["wave16_segmentation.onnx"]
    assert onnx.load(next(tmp_path.rglob("wave16_segmentation.onnx"))) == model


def test_checking_alone_installs_nothing(check, wave16, tmp_path):
    status, lines = check(coded_network(wave16[1].geometry), "--no-install", "--cpu")
    assert status == 0
    assert lines[-1].endswith("meets the contract of profile wave16")
    assert not any("parser of" in line for line in lines)
    assert installed(tmp_path) == []


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        pytest.param(
            {"batch": 8},
            r"BAD  input: got waveform, float32 \(8, 256000\), expected one, float32 \(n, 256000\) with .*",
            id="fixed-batch",
        ),
        pytest.param(
            {"centred": True},
            r"BAD  each window alone: got log-probabilities up to .* apart, expected 0\.001",
            id="depends-on-the-batch",
        ),
        pytest.param(
            {"scores": True},
            r"BAD  log-probabilities: got probabilities that sum to .*, expected 1 within 0\.001",
            id="no-probabilities",
        ),
        pytest.param(
            {"overflow": True}, r"BAD  silent input, values: got .* % finite, expected 100 %", id="not-finite"
        ),
        pytest.param(
            {"alien": True},
            r"BAD  OpenVINO: got an error: .*, expected a network that loads",
            id="alien-operator",
        ),
    ],
)
def test_a_fault_is_a_line_with_both_sides(check, wave16, tmp_path, faults, message):
    status, lines = check(coded_network(wave16[1].geometry, **faults), "--cpu")
    assert status == 1
    assert [line for line in lines if re.fullmatch(message, line)], lines
    assert re.search(r"does not meet the contract of profile wave16: \d+ bad, see above$", lines[-1])
    assert installed(tmp_path) == []


def test_an_operator_that_tensorrt_lacks_is_named(check, wave16):
    pytest.importorskip("tensorrt_rtx_bindings")
    _, lines = check(coded_network(wave16[1].geometry, alien=True))
    (line,) = (line for line in lines if line.startswith("BAD  parser of tensorrt_rtx: "))
    assert "operator Whiten" in line
    assert "/tmp" not in line


def test_what_was_installed_stays_if_the_next_one_is_bad(check, wave16, tmp_path):
    good = coded_network(wave16[1].geometry)
    assert check(good, "--cpu")[0] == 0
    assert check(coded_network(wave16[1].geometry, scores=True), "--cpu")[0] == 1
    assert onnx.load(next(tmp_path.rglob("wave16_segmentation.onnx"))) == good


def test_a_network_of_another_geometry_is_told_apart(check):
    model = coded_network(SPAN16.geometry)
    status, lines = check(model, "--cpu", profile="span16")
    assert status == 1
    assert lines[0].startswith(
        "BAD  input: got waveform, float32 (free, 256000), expected one, float32 (n, 1598, 80)"
    )
    assert lines[1].startswith("ok   output: ")
    assert len(lines) == 3  # what it would answer is not tried


def test_two_inputs_are_one_too_many(check, wave16):
    model = coded_network(wave16[1].geometry)
    model.graph.input.append(helper.make_tensor_value_info("mask", onnx.TensorProto.INT64, ["n"]))
    _, lines = check(model, "--cpu")
    assert lines[0].startswith(
        "BAD  input: got waveform, float32 (free, 256000); mask, int64 (free), expected one"
    )


@pytest.fixture
def fbank_model(tmp_path):
    """A small reference network, exported."""
    torch.manual_seed(1)
    network = ReferenceConformer(16, size=8, heads=2, layers=1, kernel_size=3).eval().requires_grad_(False)
    file = tmp_path / "fbank.onnx"
    write(plan_graphs(SPAN16)[0], network, file)
    return onnx.load(file)


def test_weights_beside_the_file_are_taken_into_it(fbank_model, tmp_path, capsys):
    file = tmp_path / "beside" / "model.onnx"
    file.parent.mkdir()
    whole = fbank_model.SerializeToString()
    onnx.save(fbank_model, file, save_as_external_data=True, location="model.data", size_threshold=0)
    status = check_network.main(
        [str(file), "--profile", "span16", "--engines-dir", str(tmp_path / "engines"), "--cpu"]
    )
    assert status == 0, capsys.readouterr().out
    kept = onnx.load(tmp_path / "engines" / "build" / "onnx" / "span16_segmentation.onnx")
    for one, two in zip(
        kept.graph.initializer, onnx.ModelProto.FromString(whole).graph.initializer, strict=True
    ):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(one), onnx.numpy_helper.to_array(two))


@pytest.mark.parametrize("content", [None, b"no graph"], ids=["missing", "garbage"])
def test_a_file_that_is_none_is_one_line(tmp_path, capsys, content):
    file = tmp_path / "model.onnx"
    if content:
        file.write_bytes(content)
    assert check_network.main([str(file), "--profile", "span16"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file} is not a valid ONNX file: ")


def test_a_profile_with_its_own_network_takes_no_other(check, wave16):
    status, (line,) = check(coded_network(wave16[1].geometry), profile="pyannote_campplus")
    assert status == 1
    assert line.startswith(
        "error: profile pyannote_campplus has network pyannet, with weights; expected one with"
    )
