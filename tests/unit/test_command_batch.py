"""The command with many recordings, several servers, formats and voices."""

import gc
import json
import signal
import subprocess
import sys
import threading
import time
import wave
import weakref

import numpy as np
import pytest
from diar_client import command, exit_codes
from diar_client.decode import decode_file
from kserve_stand_in import Refusal
from scripted_server import scripted_server

from diar.pipeline import Recording

UNUSED = "grpc://127.0.0.1:9"  # discard; nothing listens there


@pytest.fixture
def server(profile):
    return scripted_server(profile)


@pytest.fixture
def url(server):
    url, stop = server.serve_grpc()
    yield url
    stop()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """calls/ with a.wav to d.wav: a and c of the first speaker, b and d of the second; 2 s, 3 s …"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calls").mkdir()
    for index, name in enumerate("abcd"):
        write_wav(tmp_path / "calls" / f"{name}.wav", [0.1, 0.2][index % 2], 2 + index)
    return tmp_path


def write_wav(path, level, seconds):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.full(16_000 * seconds, round(level * 32768), np.int16).tobytes())


@pytest.fixture
def diarize(url, folder, capfd):
    """Runs the command; returns (exit code, standard output, standard error)."""

    def run(*arguments):
        code = command.main([*arguments, "--url", url])
        return (code, *capfd.readouterr())

    return run


def test_folder_goes_into_a_folder_in_several_formats(diarize, folder):
    (folder / "calls" / "more").mkdir()
    write_wav(folder / "calls" / "more" / "a.wav", 0.1, 1)
    code, out, err = diarize("calls", "-f", "rttm,json,srt,vtt,csv,textgrid", "-o", "out/new")
    assert (code, out, err) == (0, "", "")
    names = {str(path.relative_to(folder / "out" / "new")) for path in (folder / "out").rglob("*.*")}
    suffixes = (".rttm", ".json", ".srt", ".vtt", ".csv", ".TextGrid")
    assert names == {f"{stem}{suffix}" for stem in ("a", "b", "c", "d", "more/a") for suffix in suffixes}
    assert (
        folder / "out/new/d.rttm"
    ).read_text() == "SPEAKER d 1 0.000 5.000 <NA> <NA> SPEAKER_00 <NA> <NA>\n"


def test_recordings_are_in_order_however_long_each_takes(server, diarize):
    answer = server.models["diarize"]

    def slowest_first(call):
        time.sleep(0.3 if call.parameters["file_id"] == "a" else 0)
        return answer(call)

    server.models["diarize"] = slowest_first
    _, out, _ = diarize("--jobs", "4", "calls")
    assert [line.split()[1] for line in out.splitlines()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_as_many_recordings_are_in_work_as_were_asked_for(server, diarize, jobs):
    answer, running, most = server.models["diarize"], [], []

    def watch(call):
        running.append(1)
        most.append(len(running))
        time.sleep(0.15)
        running.pop()
        return answer(call)

    server.models["diarize"] = watch
    assert diarize("--jobs", str(jobs), "calls")[0] == 0
    assert max(most) == jobs


def test_servers_share_the_work(server, profile, diarize):
    other = scripted_server(profile)
    for each in (server, other):
        each.models["diarize"] = lambda call, answer=each.models["diarize"]: time.sleep(0.1) or answer(call)
    other_url, stop = other.serve_http()
    code, _, _ = diarize("--url", other_url, "calls")
    stop()
    assert code == 0
    assert (len(server.calls), len(other.calls)) == (2, 2)


def test_server_that_is_not_there_is_left_out(diarize):
    code, out, err = diarize("--timeout", "1", "--url", UNUSED, "--jobs", "2", "calls")
    assert code == 0
    assert len(out.splitlines()) == 4
    again, without = err.splitlines()
    assert again.endswith("; trying again")
    assert without.endswith("; going on without it")


def test_failures_are_listed_at_the_end_in_order(server, diarize, folder):
    answer = server.models["diarize"]

    def refuse_b(call):
        if call.parameters["file_id"] == "b":
            raise Refusal("INVALID_ARGUMENT", "E_AUDIO_SILLY|got nonsense")
        return answer(call)

    server.models["diarize"] = refuse_b
    (folder / "calls" / "c.wav").write_bytes(b"")
    code, out, err = diarize("calls", "nowhere.wav")
    assert code == 3
    assert [line.split()[1] for line in out.splitlines()] == ["a", "d"]
    assert err.splitlines() == [
        "diarize: calls/b.wav: got nonsense",
        "diarize: calls/c.wav: it has 0 bytes",
        "diarize: nowhere.wav: No such file or directory",
        "diarize: 2 of 5 recordings done",
    ]


def test_errors_are_json_lines_when_asked_for(diarize, folder):
    whole = (folder / "calls/a.wav").read_bytes()
    (folder / "calls/a.wav").write_bytes(whole[:-8000])
    code, _, err = diarize("--json-errors", "calls/a.wav", "nowhere.wav")
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 3
    assert [(line["level"], line.get("file")) for line in lines] == [
        ("warning", "calls/a.wav"),
        ("error", "nowhere.wav"),
        ("info", None),
    ]
    assert lines[1] == {
        "level": "error",
        "file": "nowhere.wav",
        "error": "E_AUDIO_FILE",
        "text": "nowhere.wav: No such file or directory",
        "exit_code": 3,
    }
    assert (lines[2]["done"], lines[2]["total"], lines[2]["left"]) == (1, 2, [])


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-f", "rttm,json", "calls"], id="formats-without-folder"),
        pytest.param(["-f", "srt", "calls"], id="folder-on-standard-output"),
        pytest.param(["-f", "docx", "a.wav"], id="unknown-format"),
        pytest.param(["--jobs", "0", "calls"], id="no-jobs"),
        pytest.param(["--file-id", "x", "calls"], id="one-name-for-a-folder"),
        pytest.param(["-"], id="pipe-without-live"),
        pytest.param(["--latency", "1", "a.wav"], id="latency-without-live"),
        pytest.param(["--live", "a.wav", "b.wav"], id="two-live"),
        pytest.param(["--live", "--pcm", "16000", "a.wav"], id="raw-file"),
        pytest.param(["enroll", "Anna"], id="nothing-to-enroll"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, folder, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == exit_codes.USAGE


def test_options_may_stand_between_recordings(diarize):
    _, out, _ = diarize("calls/a.wav", "--num", "1", "calls/b.wav")
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    "names", [("--num", "--min", "--max"), ("--num-speakers", "--min-speakers", "--max-speakers")]
)
def test_speaker_counts_have_two_names(server, diarize, names):
    num, least, most = names
    diarize(num, "1", "calls/a.wav")
    diarize(least, "1", most, "2", "calls/a.wav")
    assert [call.parameters.get("num_speakers") for call in server.calls] == [1, None]
    assert [call.parameters.get("max_speakers") for call in server.calls] == [None, 2]


def test_recording_that_is_too_long_for_the_server_goes_in_blocks(server, diarize):
    server.configs["diarize"]["parameters"]["max_recording_s"]["string_value"] = "3"
    code, out, _ = diarize("calls")
    assert (code, len(out.splitlines())) == (0, 4)
    assert sorted({call.model[:7] for call in server.calls}) == ["diar_nn", "diarize"]
    assert [call.model for call in server.calls].count("diarize") == 2


def test_output_that_cannot_be_written_ends_everything(diarize, folder):
    (folder / "out").write_text("a file")
    code, _, err = diarize("-o", "out", "calls")
    assert code == 1
    assert err.startswith("diarize: cannot write out: ")


def test_key_and_ca_come_from_files(server, diarize, folder):
    server.api_key = "s3cret"
    (folder / "key").write_text("s3cret\n")
    assert diarize("--api-key-file", "key", "calls/a.wav")[0] == 0
    code, _, err = diarize("calls/a.wav")
    assert code == 6
    assert "it wants an API key" in err
    assert diarize("--ca", "key", "calls/a.wav")[0] == 1


def test_enrolled_voices_name_speakers(server, diarize, folder):
    assert diarize("enroll", "Anna Smith", "calls/a.wav", "calls/c.wav")[0] == 0
    # scripted voices are unit vectors by slot: a and c are the first speaker, b and d the second
    code, out, _ = diarize("--speakers", "voices", "calls")
    assert code == 0
    names = {line.split()[1]: line.split()[7] for line in out.splitlines()}
    assert names == {"a": "Anna_Smith", "b": "SPEAKER_00", "c": "Anna_Smith", "d": "SPEAKER_00"}


def test_enrolling_says_what_is_kept(diarize, url, folder, capfd):
    code = command.main(["enroll", "--url", url, "Bo", "calls/d.wav", "--speakers", "kept"])
    assert (code, capfd.readouterr().err) == (
        0,
        "diarize: kept/Bo.voice.json: the voice of Bo, 5.0 s of speech\n",
    )


def test_enrolling_wants_enough_speech_of_one_person(url, folder, capfd):
    both = np.repeat(np.array([0.1, 0.2]), 16_000 * 20)
    with wave.open("both.wav", "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.rint(both * 32768).astype(np.int16).tobytes())
    write_wav(folder / "silent.wav", 0.0, 4)
    for arguments, text in [
        (["calls/a.wav"], "got 2.0 s of speech, expected 3 s"),
        (["both.wav"], "2 people speak in it"),
        (["silent.wav"], "there is no speech in it"),
        (["nowhere.wav"], "No such file"),
    ]:
        assert command.main(["enroll", "--url", url, "Bo", *arguments]) == 3
        assert text in capfd.readouterr().err
    assert command.main(["enroll", "--url", url, "--num", "1", "Bo", "both.wav"]) == 0


def test_voice_of_another_profile_is_refused_before_anything_is_sent(server, diarize, folder):
    diarize("enroll", "Anna", "calls/c.wav")
    path = folder / "voices" / "Anna.voice.json"
    path.write_text(path.read_text().replace("pyannote_campplus", "span16"))
    server.calls.clear()
    code, out, err = diarize("--speakers", "voices", "calls")
    assert (code, out, server.calls) == (4, "", [])
    assert "the voice of Anna is of profile span16" in err


def test_ctrl_c_says_what_is_finished(server, url, folder):
    answer, waiting = server.models["diarize"], threading.Event()

    def slow(call):
        if call.parameters["file_id"] != "a":
            waiting.wait(5)
        return answer(call)

    server.models["diarize"] = slow
    with subprocess.Popen(
        [sys.executable, "-m", "diar_client.command", "--url", url, "--jobs", "2", "-o", "out", "calls"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 20
        while not (folder / "out/a.rttm").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    waiting.set()
    assert process.returncode == exit_codes.INTERRUPTED
    left = "calls/b.wav, calls/c.wav, calls/d.wav"
    assert err == f"diarize: interrupted: 1 of 4 recordings done; not done: {left}\n"
    assert [path.name for path in (folder / "out").iterdir()] == ["a.rttm"]


def test_samples_are_given_up_before_the_clustering(diarize, monkeypatch):
    kept, seen = [], []

    def decode(*arguments, **more):
        decoded = decode_file(*arguments, **more)
        kept.append(weakref.ref(decoded.samples))
        return decoded

    def finish(recording, *arguments):
        gc.collect()
        seen.append(kept[-1]())
        return original(recording, *arguments)

    original = Recording.finish
    monkeypatch.setattr("diar_client.batch.decode_file", decode)
    monkeypatch.setattr("diar_client.blocks.Recording.finish", finish)
    assert diarize("--mode", "blocks", "calls/a.wav")[0] == 0
    assert seen == [None]
