"""A profile loads whole or names what is wrong in it."""

from pathlib import Path

import pytest

from diar.errors import SetupError
from diar.profile import load_profile, profile_names

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(tmp_path, profile_text):
    """Load the default profile with one piece of its text replaced."""

    def load(old, new):
        assert profile_text.count(old) == 1, f"expected {old!r} once"
        path = tmp_path / "faulty.toml"
        path.write_text(profile_text.replace(old, new), encoding="utf-8")
        return load_profile(str(path))

    return load


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_that_comes_along_loads_under_its_name(name):
    assert load_profile(name).name == name


def test_default_geometry_is_that_of_the_design(profile):
    geometry = profile.geometry
    assert (geometry.frames, geometry.num_classes, geometry.span_samples()) == (589, 7, 656_000)
    assert [geometry.windows_of_span(n) for n in (160_000, 176_000, 656_000)] == [1, 2, 32]


def test_a_file_loads_as_the_name_does(load, profile):
    assert load("hop = 16000", "hop = 16_000 # one second") == profile


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("hop = 16000", "hop = 16000\nhops = 1", ["hops", "$.geometry"], id="unknown-key"),
        pytest.param("sample_rate = 16000", "rate = 16000", ["rate"], id="unknown-key-at-the-top"),
        pytest.param("dim = 192", "", ["dim", "$.embedding"], id="missing-key"),
        pytest.param("hop = 16000", 'hop = "1 s"', ["int", "str", "$.geometry.hop"], id="wrong-type"),
        pytest.param("hop = 16000", "hop = 0", [">= 1", "$.geometry.hop"], id="hop-of-nothing"),
        pytest.param("hop = 16000", "hop = true", ["bool", "$.geometry.hop"], id="a-flag-for-a-number"),
        pytest.param("sample_rate = 16000", "sample_rate = 8000", ["8000", "16000"], id="other-sample-rate"),
        pytest.param("frames = 589", "frames = 590", ["590", "589"], id="frames-disagree"),
        pytest.param("classes = 7", "classes = 8", ["8", "7"], id="classes-disagree"),
        pytest.param("max_overlap = 2", "max_overlap = 3", ["7", "8"], id="overlap-disagrees-with-classes"),
        pytest.param("span = 656000", "span = 640000", ["640000", "656000"], id="span-disagrees"),
        pytest.param(
            "windows_per_block = 32", "windows_per_block = 31", ["656000", "640000"], id="block-size"
        ),
        pytest.param('network = "pyannet"', 'network = "sortformer"', ["sortformer"], id="unknown-network"),
        pytest.param('variant = "span"', 'variant = "pure"', ["pure"], id="unknown-variant"),
        pytest.param(
            'sha256 = "640c', 'sha256 = "zzzz', ["0-9a-f", "$.segmentation.weights"], id="bad-sha256"
        ),
        pytest.param('sha256 = "640c', 'sha256 = "', ["{64}", "$.segmentation.weights"], id="short-sha256"),
        pytest.param(
            "precut_cosine = 0.75", "precut_cosine = 1.0", ["1.0", "precut_cosine"], id="precut-of-one"
        ),
        pytest.param("kappa = 1.4", "kappa = nan", ["kappa"], id="not-a-number"),
        pytest.param("delta = 0.1", "delta = inf", ["delta"], id="without-end"),
        pytest.param("[geometry]", "[geometry", ["faulty.toml"], id="no-toml"),
    ],
)
def test_a_fault_is_named(load, old, new, words):
    with pytest.raises(SetupError) as caught:
        load(old, new)
    assert caught.value.word == "E_PROFILE"
    assert all(word in caught.value.text for word in [*words, "faulty.toml"]), caught.value.text


SPAN16 = (ROOT / "engines" / "profiles" / "span16.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(
            'front_end = "fbank"\n\n[seg', 'front_end = "waveform"\n\n[seg', "fbank", id="front-end"
        ),
        pytest.param("[segmentation.fbank]", "[segmentation.weights]", "segmentation.weights", id="table"),
        pytest.param("bins = 80", "bins = 64", "64", id="other-bins"),
        pytest.param('mean = "kept"', 'mean = "taken"', "'taken'", id="unknown-mean"),
        pytest.param('network = "reference"', 'network = "pyannet"', "front_end waveform", id="pyannet"),
        pytest.param("frame_field = 560", "frame_field = 400", "(320, 560), got (320, 400)", id="field"),
        pytest.param('name = "span16"', 'name = "span 16"', "$.name", id="blank-in-the-name"),
        pytest.param("[clustering]", '[limits."openvino:int8"]\n[clustering]', "openvino:int8", id="limits"),
    ],
)
def test_a_fault_of_a_network_to_bring_along_is_named(tmp_path, old, new, words):
    assert SPAN16.count(old) == 1
    path = tmp_path / "faulty.toml"
    path.write_text(SPAN16.replace(old, new), encoding="utf-8")
    with pytest.raises(SetupError) as caught:
        load_profile(str(path))
    assert words in caught.value.text


def test_a_network_without_weights_is_brought_along(tmp_path, profile_text, profile):
    start = profile_text.index("[segmentation.weights]")
    end = profile_text.index("[embedding]")
    text = profile_text.replace(profile_text[start:end], "")
    for network, message in (("onnx", ""), ("pyannet", "network pyannet needs a table segmentation.weights")):
        path = tmp_path / f"{network}.toml"
        path.write_text(text.replace('network = "pyannet"', f'network = "{network}"'), encoding="utf-8")
        if message:
            with pytest.raises(SetupError, match=message):
                load_profile(str(path))
        else:
            assert load_profile(str(path)).weights == [profile.embedding.weights]


def test_more_classes_than_a_byte_holds_are_refused(tmp_path):
    text = SPAN16.replace("local_speakers = 4\nmax_overlap = 4", "local_speakers = 9\nmax_overlap = 9")
    path = tmp_path / "crowd.toml"
    path.write_text(text.replace("classes = 16", "classes = 512"), encoding="utf-8")
    with pytest.raises(SetupError, match="at most 256 classes, got 512"):
        load_profile(str(path))


def test_the_contract_of_span16_is_that_of_the_design():
    geometry = load_profile("span16").geometry
    assert (geometry.frames, geometry.num_classes, geometry.span_samples()) == (799, 16, 435_200)
    assert geometry.span_samples() * 4 == 1_740_800
    assert geometry.windows_per_block * geometry.frames * geometry.num_classes * 4 == 409_088
    assert geometry.frame_field // 2 == 280
    assert [geometry.first_frame(window) for window in (0, 1, 7)] == [0, 80, 560]


def test_a_hop_longer_than_the_window_is_named_with_both(load, tmp_path, profile_text):
    text = profile_text.replace("hop = 16000", "hop = 160320").replace("span = 656000", "span = 5129920")
    path = tmp_path / "gaps.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match="hop <= window, got hop 160320, window 160000"):
        load_profile(str(path))


def test_a_hop_between_trunk_frames_is_named(tmp_path, profile_text):
    text = profile_text.replace("hop = 16000", "hop = 16160").replace("span = 656000", "span = 660960")
    path = tmp_path / "between.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match="hop modulo the trunk's step is 160, expected 0"):
        load_profile(str(path))


@pytest.mark.parametrize("name", ["", "default", "../pyannote_campplus", "pyannote_campplus/../x"])
def test_an_unknown_name_is_answered_with_the_known_ones(name):
    with pytest.raises(SetupError, match=r"E_PROFILE\|unknown profile .*known: .*pyannote_campplus"):
        load_profile(name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"E_PROFILE\|no profile file .*absent.toml"):
        load_profile(str(tmp_path / "absent.toml"))


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes('name = "Zürich"'.encode("latin-1"))
    with pytest.raises(SetupError, match=r"E_PROFILE\|profile .*latin.toml"):
        load_profile(str(path))


@pytest.mark.parametrize(("num_windows", "step"), [(1, 1), (11, 1), (12, 2), (22, 2), (23, 3), (32, 3)])
def test_blocks_that_are_not_full_have_pure_windows_more_often(num_windows, step):
    assert load_profile("pyannote_campplus_two_tier").pure_step(num_windows) == step


def test_only_the_two_tier_variant_has_pure_windows(profile):
    assert profile.embedding.variant == "span"
    assert profile.pure_step(32) == 0
