"""Which recordings a command line means, and what their results are called."""

import os
from pathlib import PurePath

import pytest
from diar_client.inputs import MAX_NAME_BYTES, find_recordings, safe_name
from hypothesis import given
from hypothesis import strategies as st

from diar.errors import InvalidAudio


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("b.wav", "a.MP3", "notes.txt", "sub/c.opus", "sub/.hidden.wav", ".git/d.wav", "other/c.opus")
    for name in names:
        path = tmp_path / "calls" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


def found(*paths):
    return [(recording.path, str(recording.output)) for recording in find_recordings(paths)]


def test_folder_gives_the_sound_files_below_it(tree):
    assert found("calls") == [
        ("calls/a.MP3", "a"),
        ("calls/b.wav", "b"),
        ("calls/other/c.opus", "other/c"),
        ("calls/sub/c.opus", "sub/c"),
    ]


def test_file_is_taken_whatever_its_ending_and_whether_it_is_there(tree):
    assert found("calls/notes.txt", "nowhere.xyz") == [
        ("calls/notes.txt", "notes"),
        ("nowhere.xyz", "nowhere"),
    ]


def test_file_that_is_named_twice_counts_once(tree):
    assert found("calls/b.wav", "calls", "calls/b.wav")[:2] == [("calls/b.wav", "b"), ("calls/a.MP3", "a")]


def test_folder_without_sound_is_refused(tree):
    (tree / "empty").mkdir()
    with pytest.raises(InvalidAudio, match="empty: the folder holds no sound"):
        find_recordings(["calls", "empty"])


@pytest.mark.parametrize(
    ("paths", "outputs"),
    [
        pytest.param(["x/a.wav", "y/a.mp3"], ["a.wav", "a.mp3"], id="other-endings"),
        pytest.param(["x/a.wav", "y/a.wav"], ["a.wav", "a.wav-2"], id="other-folders"),
        pytest.param(["x/A.wav", "y/a.flac"], ["A.wav", "a.flac"], id="upper-case"),
        pytest.param(["a.wav", "z/a.wav-2", "y/a.wav"], ["a.wav", "a.wav-2", "a.wav-3"], id="taken"),
        pytest.param(["Ümläut 1.wav", "李雷.m4a"], ["Ümläut 1", "李雷"], id="unicode"),
        pytest.param(["...wav", "..b.wav"], ["_..", "_..b"], id="dots"),
        pytest.param([os.fsdecode(b"a\xff.wav")], ["a_"], id="no-utf8"),
    ],
)
def test_outputs_have_names_of_their_own(paths, outputs):
    assert [output for _, output in found(*paths)] == outputs


@given(st.text(max_size=300))
def test_safe_name_is_one_part_of_a_path(text):
    name = safe_name(text)
    assert PurePath(name).parts == (name,)
    assert not name.startswith(".")
    assert 0 < len(name.encode()) <= MAX_NAME_BYTES
    assert safe_name(name) == name
