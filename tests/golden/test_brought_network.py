"""A network that is brought along, from its ONNX file to the turns: real voices, activity that is known."""

import av
import numpy as np
import onnx
import pytest
from coded import coded_network, example_profile, mix, plant_classes

from diar.block import BlockRunner
from diar.errors import SetupError
from diar.local import diarize_local
from diar.profile import load_profile
from diar.tools.check_network import check_network

S = 16_000
PEOPLE = ("libri_1116", "libri_19", "libri_4160", "libri_87")
PAIRS = [  # never more than two at once
    (1 * S, 10 * S, 0),
    (9 * S, 17 * S, 1),
    (18 * S + 99, 26 * S, 2),
    (25 * S, 33 * S, 3),
    (32 * S, 36 * S, 0),
]
CROWD = [*PAIRS, (37 * S, 44 * S, 0), (38 * S, 44 * S, 1), (39 * S, 44 * S, 2), (40 * S, 46 * S, 3)]
LENGTH = 47 * S
FOUR_AT_ONCE = {
    "max_overlap = 2": "max_overlap = 4",
    "classes = 11": "classes = 16",
    'variant = "span"': 'variant = "two_tier"',  # nobody in the crowd is alone; without, one is lost
}


@pytest.fixture(scope="module")
def voices(shared_data):
    """Four people: by number, (samples,) int16."""

    def read(person):
        (file, *_) = sorted((shared_data / "single" / person).glob("*.flac"))
        with av.open(str(file)) as container:
            return np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])

    return {number: read(person) for number, person in enumerate(PEOPLE)}


@pytest.fixture
def bring(tmp_path, weights_dir, onnx_dir):
    """Write a profile and its network, and install it; gives the profile and the engines folder."""

    def bring_along(text):
        file, model = tmp_path / "profile.toml", tmp_path / "model.onnx"
        file.write_text(text)
        profile = load_profile(str(file))
        onnx.save(coded_network(profile.geometry), model)
        engines = tmp_path / "build"
        (engines / "onnx").mkdir(parents=True)
        (engines / "weights").symlink_to(weights_dir)
        (engines / "onnx" / "campplus_trunk.onnx").symlink_to(onnx_dir / "campplus_trunk.onnx")
        _, installed = check_network(model, profile, engines, gpus=False)
        assert installed
        return profile, engines

    return bring_along


@pytest.mark.parametrize(
    ("change", "turns"),
    [
        pytest.param({}, PAIRS, id="11-classes"),
        pytest.param(FOUR_AT_ONCE, CROWD, id="16"),
    ],
)
def test_known_activity_comes_back_to_a_frame(bring, voices, change, turns):
    example = example_profile()
    for old, new in change.items():
        assert example.count(old) == 1
        example = example.replace(old, new)
    profile, engines = bring(example)
    recording = mix(voices, turns, LENGTH)
    plant_classes(recording, turns, profile.geometry)
    result = diarize_local(recording, profile, BlockRunner(profile, engines, threads=1))
    assert result.lanes == {"segmentation": "openvino:fp32", "embedding": "openvino:fp32"}
    assert len(result.speakers) == 4
    found = [(turn.start, turn.end) for turn in result.turns]
    np.testing.assert_allclose(found, [turn[:2] for turn in turns], rtol=0, atol=profile.geometry.frame_step)
    speakers = [
        int(turn.speaker[-1]) for turn in result.turns
    ]  # by first appearance, as they are numbered here
    assert speakers == [turn[2] for turn in turns]


def test_the_exact_lane_is_refused(bring):
    profile, engines = bring(example_profile())
    with pytest.raises(
        SetupError, match=r"E_LANE\|the segmentation network of profile wave16 is an ONNX file"
    ):
        BlockRunner(profile, engines, segmentation_lane="exact", threads=1)
