"""A profile file and an ONNX file are all that a network of another geometry needs, up to the real server."""

import json
import shutil

import numpy as np
import onnx
import pytest
from coded import coded_network, example_profile, mix, plant_classes
from live import DATA, ROOT, read_recording

from diar.profile import load_profile
from diar.tools.check_network import main as check_network

S = 16_000
TURNS = [(1 * S, 9 * S, 0), (8 * S, 15 * S, 1), (16 * S + 99, 20 * S, 0)]


@pytest.fixture
def repository(tmp_path):
    """A copy of the committed repository beside an engines folder that has the example's network."""
    built = ROOT / "engines" / "build"
    engines = tmp_path / "engines"
    (engines / "build" / "onnx").mkdir(parents=True)
    (engines / "build" / "weights").symlink_to(built / "weights")
    (engines / "build" / "onnx" / "campplus_trunk.onnx").symlink_to(built / "onnx" / "campplus_trunk.onnx")
    (tmp_path / "wave16.toml").write_text(example_profile())
    geometry = load_profile(str(tmp_path / "wave16.toml")).geometry
    onnx.save(coded_network(geometry), tmp_path / "model.onnx")
    arguments = [tmp_path / "model.onnx", "--profile", tmp_path / "wave16.toml", "--engines-dir", engines]
    assert check_network([*map(str, arguments), "--cpu"]) == 0
    return shutil.copytree(ROOT / "model_repository", tmp_path / "model_repository")


def test_known_activity_comes_back_over_the_wire(repository, tmp_path, serve, connect):
    people = [sorted((DATA / "single" / name).glob("*.flac")) for name in ("libri_1116", "libri_19")]
    if not all(people):
        pytest.skip(f"no recordings at {DATA / 'single'}")
    profile = load_profile(str(tmp_path / "wave16.toml"))
    recording = mix({number: read_recording(files[0]) for number, files in enumerate(people)}, TURNS, 21 * S)
    plant_classes(recording, TURNS, profile.geometry)
    wire = connect("grpc", serve("--model-repository", repository, "--profile", tmp_path / "wave16.toml"))
    dims = {output["name"]: output["dims"] for output in wire.config("diar_nn_g0")["output"]}
    assert [int(size) for size in dims["LOGITS"]] == [-1, 799, 11]
    result = json.loads(wire.diarize(recording))
    assert (result["profile"], result["lanes"]["segmentation"]) == ("wave16", "openvino:fp32")
    found = [(turn["start"], turn["end"]) for turn in result["turns"]]
    np.testing.assert_allclose(found, [(start / S, end / S) for start, end, _ in TURNS], rtol=0, atol=0.0205)
    assert [int(turn["speaker"][-1]) for turn in result["turns"]] == [0, 1, 0]
