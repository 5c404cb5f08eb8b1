"""The demo's own steps: the sample's wheel, the server it starts and stops."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from diar.errors import SetupError
from diar.tools import demo, fetch_sample, live_server


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with stand-ins for the sample's files, which fetch_sample takes for the pinned one."""
    path = tmp_path / "sample.whl"
    contents = {member: member.encode() for member, _ in fetch_sample._MEMBERS.values()}
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in contents.items():
            archive.writestr(member, data)
    members = {
        name: (member, hashlib.sha256(contents[member]).hexdigest())
        for name, (member, _) in fetch_sample._MEMBERS.items()
    }
    monkeypatch.setattr(fetch_sample, "_MEMBERS", members)
    monkeypatch.setattr(fetch_sample, "download_wheel", lambda source, folder: path)
    return path


def test_the_sample_is_fetched_once_and_again_when_altered(tmp_path, wheel):
    sound = fetch_sample.fetch_sample(tmp_path)
    assert sound == tmp_path / "build" / "sample" / "sample.wav"
    assert {file.name for file in sound.parent.iterdir()} == {"sample.wav", "sample.rttm", "LICENSE"}
    wheel.rename(tmp_path / "away.whl")
    assert fetch_sample.fetch_sample(tmp_path) == sound  # needs no wheel any more
    (tmp_path / "away.whl").rename(wheel)
    sound.write_bytes(b"altered")
    assert fetch_sample.fetch_sample(tmp_path).read_bytes() == b"pyannote/audio/sample/sample.wav"


def test_another_sample_than_the_pinned_one_is_refused(tmp_path, wheel):
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, _ in fetch_sample._MEMBERS.values():
            archive.writestr(member, b"something else")
    with pytest.raises(SetupError, match="has sha256"):
        fetch_sample.fetch_sample(tmp_path)
    assert not list((tmp_path / "build").rglob("*.*"))


def command(folder: Path, text: str) -> Path:
    path = folder / "serve"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_the_server_runs_while_inside_and_is_told_to_stop(tmp_path):
    serve = command(
        tmp_path,
        f"echo $$ >{tmp_path}/pid; echo $* >{tmp_path}/arguments\n"
        f"trap 'echo stopped >{tmp_path}/end; exit 0' TERM\n"
        "echo http; echo grpc; echo metrics; echo health\n"
        "while :; do sleep 0.05; done\n",
    )
    with live_server.running_server(serve) as server:
        assert f"--grpc-port={server.grpc_port}" in (tmp_path / "arguments").read_text()
        os.kill(int((tmp_path / "pid").read_text()), 0)
        assert not (tmp_path / "end").exists()
    assert (tmp_path / "end").exists()


def test_a_server_that_does_not_start_is_quoted(tmp_path):
    serve = command(
        tmp_path, "echo noise >&2; echo 'error: cannot listen on port 1' >&2; echo more >&2; exit 1\n"
    )
    with (
        pytest.raises(SetupError, match=r"^E_SERVER\|cannot listen on port 1$"),
        live_server.running_server(serve),
    ):
        pytest.fail("is not running")


def test_an_error_inside_stays_what_it_is_and_stops_the_server(tmp_path):
    serve = command(tmp_path, f"echo $$ >{tmp_path}/pid; echo a; echo b; echo c; echo d; exec sleep 60\n")

    def fail_inside():
        with live_server.running_server(serve):
            raise SetupError("E_MINE", "mine")

    with pytest.raises(SetupError, match="mine"):
        fail_inside()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_recording_that_is_not_there_is_said_before_the_server_starts(tmp_path, capsys):
    serve = command(tmp_path, f"touch {tmp_path}/started\n")
    assert demo.main([str(tmp_path / "none.mp3"), "--serve", str(serve)]) == 1
    assert "none.mp3" in capsys.readouterr().err
    assert not (tmp_path / "started").exists()


def test_free_ports_differ():
    assert len(set(live_server.free_ports(3))) == 3
