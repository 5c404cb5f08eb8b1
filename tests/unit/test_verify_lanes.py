"""verify_lanes around planted lanes: each figure by hand, limits, what does not run here, the command."""

import json
import wave
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from planted import PlantedNets

from diar.errors import SetupError
from diar.profile import LaneLimits, load_profile
from diar.tools import verify_lanes as tool
from diar.tools.lane_comparison import Comparison, faults, markdown

S = 16_000
PROFILE = msgspec.structs.replace(load_profile("pyannote_campplus_two_tier"), limits={})
TURNS = [(1 * S, 9 * S, 3), (8 * S, 16 * S, 5)]
LIMITS = LaneLimits(changed_frames=1000, cosine_min=0.9, cosine_mean=0.99, der_difference=0.01)


class PlantedLane:
    """A runner whose answers are a little off. shift: added to all log-probabilities. swap: so many frames
    of each window go to class 0. turn: angle of the embeddings to the right ones."""

    def __init__(self, name, shift=0.0, swap=0, turn=0.0):
        self.nets = PlantedNets(PROFILE, TURNS)
        self.lanes = (name, name)
        self.shift, self.swap, self.turn = shift, swap, turn
        self.closed = False

    def run(self, span):
        span = np.where(np.abs(span) < 0.5, span, 0)
        result = self.nets.answer(span)
        logits = result.logits + np.float32(self.shift)
        logits[:, 400 : 400 + self.swap, 0] = 5
        aside = np.roll(result.embeddings, 100, axis=2)
        embeddings = np.cos(self.turn) * result.embeddings + np.sin(self.turn) * aside
        return replace(result, logits=logits, embeddings=embeddings.astype(np.float32), lanes=self.lanes)

    def close(self):
        self.closed = True


@pytest.fixture
def folder(tmp_path):
    """A recording of 20 s that the planted lanes know, with its reference."""
    samples = PlantedNets(PROFILE, TURNS).samples(20 * S)
    with wave.open(str(tmp_path / "talk.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(S)
        file.writeframes(samples.tobytes())
    lines = [
        f"SPEAKER talk 1 {start / S} {(end - start) / S} <NA> <NA> {voice} <NA> <NA>\n"
        for start, end, voice in TURNS
    ]
    (tmp_path / "talk.rttm").write_text("".join(lines))
    return tmp_path


def verify(folder, lanes, profile=PROFILE):
    """The report on lanes by name; a lane that is an error does not run."""

    def make(name):
        if isinstance(lanes[name], Exception):
            raise lanes[name]
        return lanes[name]

    return tool.verify_lanes(profile, [folder / "talk.wav"], list(lanes), make)


def test_a_lane_like_the_reference_is_zero_away(folder):
    lanes = {name: PlantedLane(name) for name in ("exact", "openvino:fp32")}
    reference, row = verify(folder, lanes)["lanes"]
    assert (reference["lane"], reference["verdict"]) == ("exact", "reference")
    assert (row["delta_max"], row["delta_mean"], row["changed_frames"]) == (0, 0, 0)
    assert row["cosine_min"] == pytest.approx(1)
    assert row["embeddings"] > 10
    assert row["der"] == reference["der"]
    assert row["der"][0] < 0.02
    assert row["ms_per_block"] > 0
    assert (row["verdict"], row["passed"]) == ("no limits", True)
    assert all(lane.closed for lane in lanes.values())


def test_each_figure_is_what_was_planted(folder):
    lanes = {"exact": PlantedLane("exact"), "openvino:bf16": PlantedLane("openvino:bf16", 0.25, 6, 0.3)}
    reference, row = verify(folder, lanes)["lanes"]
    assert row["delta_max"] > 5
    assert row["delta_mean"] == pytest.approx(0.25, abs=0.02)
    assert 0 < row["changed_frames"] <= 1e6 * 6 / 589
    assert row["cosine_min"] == pytest.approx(np.cos(0.3), abs=1e-3)  # the pure ones are right
    assert row["cosine_min"] < row["cosine_mean"] < 1
    assert 0 <= row["der"][0] - reference["der"][0] < 0.02


def test_sums_go_over_all_blocks():
    nets = PlantedNets(PROFILE, TURNS)
    span = nets.samples(20 * S).astype(np.float32)[: PROFILE.geometry.span_samples(3)] / 32_768
    one = nets.answer(span)
    comparison = Comparison(1.0)
    comparison.add(one, one)
    comparison.add(replace(one, logits=one.logits + 1), one)
    figures = comparison.figures()
    assert (figures["delta_max"], figures["delta_mean"]) == (pytest.approx(1), pytest.approx(0.5))
    assert comparison.frames == 2 * 3 * 589


def test_embeddings_of_little_speech_are_not_compared():
    one = PlantedNets(PROFILE, TURNS).answer(np.zeros(160_000, np.float32))
    comparison = Comparison(least_speech_s=100.0)
    comparison.add(one, one)
    assert comparison.figures()["cosine_min"] is None


def test_embeddings_of_other_frames_are_not_compared():
    nets = PlantedNets(PROFILE, TURNS)
    one = nets.answer(np.zeros(160_000, np.float32))
    logits, aside = one.logits.copy(), np.roll(one.embeddings, 100, axis=2)
    logits[0, 100:130, 0] = 5
    comparison = Comparison(1.0)
    comparison.add(replace(one, logits=logits, embeddings=aside, pure_embeddings=aside), one)
    figures = comparison.figures()
    assert figures["changed_frames"] == pytest.approx(1e6 * 30 / 589)
    assert figures["embeddings"] == 0


ROW = {"changed_frames": 10.0, "cosine_min": 0.95, "cosine_mean": 0.999, "der": [0.2, 0.1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({}, None, id="within"),
        pytest.param({"changed_frames": 1001.0}, "changed_frames 1001, expected at most 1000", id="frames"),
        pytest.param({"cosine_min": 0.89}, "cosine_min 0.89, expected at least 0.9", id="least-cosine"),
        pytest.param({"cosine_mean": float("nan")}, "cosine_mean nan, expected at least 0.99", id="nan"),
        pytest.param(
            {"der": [0.2, 0.12]},
            "2.00 points of DER more at a collar of 0.25 s a side, expected at most 1",
            id="der",
        ),
        pytest.param({"der": [0.1, 0.05]}, None, id="less-der"),
        pytest.param({"der": []}, None, id="no-reference"),
        pytest.param({"cosine_min": None, "cosine_mean": None}, None, id="no-embeddings"),
    ],
)
def test_limits_are_named_when_they_are_passed(change, message):
    assert faults({**ROW, **change}, [0.2, 0.1], LIMITS) == ([message] if message else [])
    assert faults({**ROW, **change}, [0.2, 0.1], None) == []


def test_a_lane_beyond_the_profiles_limits_fails(folder):
    profile = msgspec.structs.replace(PROFILE, limits={"openvino:bf16": LIMITS})
    lanes = {"exact": PlantedLane("exact"), "openvino:bf16": PlantedLane("openvino:bf16", turn=0.6)}
    _, row = verify(folder, lanes, profile)["lanes"]
    assert not row["passed"]
    assert row["verdict"].startswith("beyond limits: cosine_min 0.82")


def test_what_does_not_run_here_is_said(folder):
    lanes = {
        "exact": PlantedLane("exact"),
        "tensorrt:fp32": PlantedLane("tensorrt_rtx:fp32"),
        "tensorrt:fp16": SetupError("E_PLAN_MISSING", "no plan"),
    }
    document = verify(folder, lanes)
    assert [row["lane"] for row in document["lanes"]] == ["exact", "tensorrt_rtx:fp32"]
    assert document["not_available"] == {"tensorrt:fp16": "no plan"}
    text = markdown({**document, "threads": 1, "device": "D", "versions": "V", "date": "2026-01-01"})
    assert "| tensorrt:fp16 | not run | no plan |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_one_lane_alone_is_nothing_to_compare(folder):
    with pytest.raises(SetupError, match=r"at least two lanes that run here .*gone"):
        verify(folder, {"exact": PlantedLane("exact"), "openvino:fp32": SetupError("E_ONNX", "gone")})


def test_recordings_without_a_reference_give_no_der(folder):
    (folder / "talk.rttm").unlink()
    lanes = {name: PlantedLane(name) for name in ("exact", "openvino:fp32")}
    document = verify(folder, lanes)
    assert document["lanes"][1]["der"] == []
    assert (
        "DER"
        not in markdown({**document, "threads": 0, "device": "D", "versions": "V", "date": "d"}).split("\n")[
            0
        ]
    )


@pytest.fixture
def planted_runners(monkeypatch):
    """Lanes of the command: OpenVINO BF16 is as far off as asked for."""
    turns = {"openvino:bf16": 0.0}

    def make(profile, engines_dir, device, *, segmentation_lane, embedding_lane, threads):
        assert (segmentation_lane, device, threads) == (embedding_lane, "cpu", 2)
        return PlantedLane(segmentation_lane, turn=turns.get(segmentation_lane, 0.0))

    monkeypatch.setattr(tool, "BlockRunner", make)
    return turns


def test_the_command_writes_both_reports(folder, planted_runners, tmp_path, capsys):
    arguments = [str(folder), "--device", "cpu", "--threads", "2", "--profile", PROFILE.name]
    arguments += ["--json", str(tmp_path / "r.json")]
    assert tool.main([*arguments, "--markdown", str(tmp_path / "r.md")]) == 0
    document = json.loads((tmp_path / "r.json").read_text())
    assert [row["lane"] for row in document["lanes"]] == ["exact", "openvino:fp32", "openvino:bf16"]
    assert (tmp_path / "r.md").read_text() == capsys.readouterr().out
    planted_runners["openvino:bf16"] = 1.5
    assert tool.main(arguments) == 1
    assert "beyond limits: cosine_min " in capsys.readouterr().out


def test_an_empty_folder_is_one_line(tmp_path, capsys):
    assert tool.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"error: no .flac or .wav in {tmp_path}\n"
