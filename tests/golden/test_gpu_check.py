"""The checks of scripts/gpu_check, as far as they can be made on a CPU, on blocks of two windows."""

import json
import wave
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

from diar.errors import SetupError
from diar.profile import Checks, load_profile
from diar.tools import gpu_check, gpu_checks
from diar.tools.gpu_check import load_samples, main, run_checks, voices
from diar.tools.gpu_checks import Bench, CheckFailed, CheckSkipped, check_near, check_same
from diar.tools.gpu_timings import lane_timings, recording_timings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bench(weights_dir, sample):
    profile = load_profile("pyannote_campplus")
    geometry = msgspec.structs.replace(profile.geometry, windows_per_block=2)
    small = msgspec.structs.replace(profile, geometry=geometry, checks=Checks(classes=7, span=176_000))
    return Bench(small, weights_dir.parent, CPU, sample.numpy())


@pytest.mark.parametrize(
    "check",
    [gpu_checks.exact_equals_the_cpu, gpu_checks.repeats_its_bytes, gpu_checks.two_at_once_are_as_one],
    ids=lambda check: check.__name__,
)
def test_what_holds_on_a_gpu_holds_here(bench, check):
    assert check(bench)


def test_an_equal_device_is_exactly_equal(bench):
    figures = gpu_checks.exact_equals_the_cpu(bench)
    assert (figures["max_delta_logits"], figures["changed_frames_ppm"]) == (0.0, 0.0)
    assert figures["embeddings"] >= 2


@pytest.mark.parametrize(
    "check",
    [
        gpu_checks.runs_on_one_stream_of_its_own,
        gpu_checks.ignores_the_default_stream,
        gpu_checks.gives_its_memory_back,
        gpu_checks.tensorrt_is_near_exact,
        gpu_checks.tensorrt_gives_its_memory_back,
    ],
    ids=lambda check: check.__name__,
)
def test_what_needs_cuda_says_so(bench, check):
    with pytest.raises(CheckSkipped, match="needs a CUDA device"):
        check(bench)


def test_timings_name_lane_and_network(bench):
    figures = lane_timings(bench)
    expected = ["segmentation ms", "trunk ms", "first block ms", "block ms"]
    assert list(figures) == [f"exact {what}" for what in expected]
    assert all(value > 0 for value in figures.values())


@pytest.fixture(scope="module")
def result(bench):
    with bench.runner() as runner:
        return runner.run(bench.span())


@pytest.mark.parametrize(
    ("name", "alter", "message"),
    [
        (
            "logits",
            lambda logits: np.roll(logits, 1, axis=-1),
            r"\d+ of 1178 frames changed, expected at most 100 per million",
        ),
        (
            "embeddings",
            lambda rows: rows[..., ::-1],
            r"least cosine of embeddings -?0\.\d+, expected at least 0.99",
        ),
        ("speech", lambda speech: 0 * speech, "hold no speech"),
    ],
)
def test_a_result_that_is_not_near_fails_with_its_figure(result, name, alter, message):
    other = replace(result, **{name: alter(getattr(result, name))})
    pair = (result, other) if name == "speech" else (other, result)
    with pytest.raises(CheckFailed, match=message):
        check_near([pair], changed_ppm=100, cosine=0.99)


def test_a_single_bit_is_found(result):
    check_same([result], [replace(result)])
    logits = result.logits.copy()
    logits[0, 0, 0] = np.nextafter(logits[0, 0, 0], np.float32(0))
    with pytest.raises(CheckFailed, match=r"logits of block 1 came out different by up to \d"):
        check_same([result, result], [result, replace(result, logits=logits)])


def passes(bench):
    return {"figure": 1.5}


def skips(bench):
    raise CheckSkipped("needs a GPU")


def fails(bench):
    raise CheckFailed("2 frames changed")


def refuses(bench):
    raise SetupError("E_LANE", "no such lane")


def breaks(bench):
    raise ValueError("what is this")


def test_every_outcome_becomes_an_entry_and_a_line(bench, capsys):
    entries = run_checks(bench, [passes, skips, fails, refuses, breaks])
    found = [(entry["check"], entry["outcome"], entry.get("why"), entry["figures"]) for entry in entries]
    assert found == [
        ("passes", "passed", None, {"figure": 1.5}),
        ("skips", "skipped", "needs a GPU", {}),
        ("fails", "failed", "2 frames changed", {}),
        ("refuses", "failed", "E_LANE: no such lane", {}),
        ("breaks", "failed", "ValueError: what is this", {}),
    ]
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 5
    assert "Traceback" in captured.err


def command(weights_dir, out, *arguments):
    return main(
        ["--engines-dir", str(weights_dir.parents[1]), "--device", "cpu", "--out", str(out), *arguments]
    )


def test_the_report_says_what_was_run_where_and_when(weights_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "ALL_CHECKS", [passes, skips])
    out = tmp_path / "new" / "report.json"
    assert command(weights_dir, out) == 0
    report = json.loads(out.read_text())
    assert list(report) == ["date", "machine", "profile", "audio", "seconds", "checks"]
    assert [entry["outcome"] for entry in report["checks"]] == ["passed", "skipped"]
    assert report["machine"]["torch"] == torch.__version__
    assert report["machine"]["gpu"] is None
    assert command(weights_dir, out, "--only", "skips") == 0
    assert [entry["check"] for entry in json.loads(out.read_text())["checks"]] == ["skips"]


def test_a_failed_check_is_the_exit_status(weights_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "ALL_CHECKS", [passes, fails])
    assert command(weights_dir, tmp_path / "report.json") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_the_command_says_so(capsys):
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("error: PyTorch finds no CUDA device here; --device cpu")


def test_made_up_voices_hold_speech_of_two(bench):
    madeup, name = load_samples(bench.engines_dir / "no.wav")
    assert (name, madeup.dtype, np.abs(madeup).max()) == ("two made-up voices", np.float32, np.float32(0.5))
    assert np.array_equal(madeup, voices(len(madeup)))
    with bench.runner() as runner:
        assert runner.run(madeup[: bench.profile.geometry.span_samples()]).speech.sum() > 1


def test_a_file_of_another_rate_is_refused(tmp_path):
    path = tmp_path / "8k.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes(bytes(16_000))
    with pytest.raises(ValueError, match=r"8k.wav has .* \(8000, 1, 2\), expected \(16000, 1, 2\)"):
        load_samples(path)


def test_whole_recordings_are_timed_alone_and_beside_each_other(bench):
    figures = recording_timings(bench)
    assert figures["1 at once: s per hour of audio"] > 0
    assert figures["2 at once: s per hour of audio"] > 0
