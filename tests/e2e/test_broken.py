"""Repositories with one fault each: the server does not start, and its last line says which fault it is."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path):
    """A copy of the committed repository beside the real engines."""
    (tmp_path / "engines").symlink_to(ROOT / "engines")
    return Path(shutil.copytree(ROOT / "model_repository", tmp_path / "model_repository"))


def edit(repository, model, old, new):
    """Replace what occurs exactly once in the model's CPU configuration."""
    file = repository / model / "configs" / "cpu.pbtxt"
    text = file.read_text()
    assert text.count(old) == 1, f"expected exactly one {old!r} in {file}"
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("model", "old", "new", "message"),
    [
        pytest.param(
            "diar_nn_g0",
            '"threads"',
            '"thread"',
            "diar_nn_g0 did not load: config.pbtxt parameters: Object contains unknown field `thread`; ",
            id="unknown-parameter",
        ),
        pytest.param(
            "diarize",
            'key: "blocks_in_flight" value { string_value: "2" }',
            'key: "blocks_in_flight" value { string_value: "0" }',
            "diarize did not load: config.pbtxt parameters: Expected `int` >= 1 - at `$.blocks_in_flight`",
            id="no-blocks-in-flight",
        ),
        pytest.param(
            "diar_nn_g0",
            'key: "segmentation_lane" value { string_value: "auto" }',
            'key: "segmentation_lane" value { string_value: "fastest" }',
            "diar_nn_g0 did not load: got lane 'fastest', expected one of auto, exact, openvino, ",
            id="unknown-lane",
        ),
        pytest.param(
            "diarize",
            "data_type: TYPE_INT16 dims: [ -1 ] optional: true",
            "data_type: TYPE_INT61 dims: [ -1 ] optional: true",
            "cannot read ",
            id="no-such-type",
        ),
        pytest.param(
            "diarize",
            '"pyannote_campplus"',
            '"nobody"',
            "unknown profile 'nobody'; known: ",
            id="unknown-profile",
        ),
        pytest.param("diar_nn_g0", '"../engines/build"', '"../nowhere"', "no weights at ", id="no-weights"),
        pytest.param(
            "diarize",
            'key: "shm_default_bytes" value { string_value: "16777216" }',
            'key: "shm_default_bytes" value { string_value: "99999999999" }',
            "/dev/shm has ",
            id="more-than-the-shared-memory",
        ),
    ],
)
def test_fault_is_named_in_the_last_line(repository, refused, model, old, new, message):
    edit(repository, model, old, new)
    assert refused("--model-repository", repository).startswith(f"error: {message}")


def test_gpu_configuration_without_a_gpu_names_the_gpu(repository, refused):
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    line = refused("--model-repository", repository, "--gpu")
    assert line.startswith("error: diar_nn_g0 did not load: ")
    assert "gpu id 0" in line
