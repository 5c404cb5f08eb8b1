import os
import re
import signal
import subprocess
import sys
import time
import wave

import numpy as np
import pytest
from diar_client import command, exit_codes
from kserve_stand_in import Refusal
from scripted_server import scripted_server

from diar.profile import load_profile

UNUSED = "grpc://127.0.0.1:9"  # discard; nothing listens there


@pytest.fixture
def server():
    return scripted_server(load_profile("pyannote_campplus"))


@pytest.fixture
def url(server):
    url, stop = server.serve_grpc()
    yield url
    stop()


@pytest.fixture
def recordings(tmp_path):
    """a.wav with one speaker, b.wav with another turn of hers later, bad.wav that cannot be read."""
    for name, level in (("a", 0.1), ("b", 0.2)):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(np.full(32_000, round(level * 32768), np.int16).tobytes())
    (tmp_path / "bad.wav").write_bytes(b"")
    return tmp_path


@pytest.fixture
def diarize(url, recordings, capfd, monkeypatch):
    """Runs the command among the recordings; returns (exit code, standard output, standard error)."""
    monkeypatch.chdir(recordings)

    def run(*arguments, url=url):
        code = command.main(["--url", url, *arguments])
        return (code, *capfd.readouterr())

    return run


def test_rttm_goes_to_standard_output(diarize):
    code, out, err = diarize("a.wav")
    assert (code, err) == (0, "")
    assert out == "SPEAKER a 1 0.000 2.000 <NA> <NA> SPEAKER_00 <NA> <NA>\n"


def test_several_recordings_go_into_one_rttm(diarize):
    _, out, _ = diarize("a.wav", "b.wav")
    assert [line.split()[1] for line in out.splitlines()] == ["a", "b"]


def test_rttm_file_replaces_standard_output(diarize, recordings):
    (recordings / "out.rttm").write_text("old")
    code, out, _ = diarize("--rttm", "out.rttm", "a.wav", "b.wav")
    assert (code, out) == (0, "")
    assert [line.split()[1] for line in (recordings / "out.rttm").read_text().splitlines()] == ["a", "b"]


def test_json_file_is_the_result_bytes(server, diarize, recordings):
    sent = []
    answer = server.models["diarize"]
    server.models["diarize"] = lambda call: sent.append(answer(call)["RESULT"][0]) or answer(call)
    code, out, _ = diarize("--json", "out.json", "a.wav")
    assert (code, out) == (0, "")
    assert (recordings / "out.json").read_bytes() == sent[0]


def test_json_of_several_recordings_is_one_a_line(diarize):
    _, out, _ = diarize("--json", "-", "a.wav", "b.wav")
    assert [line[:12] for line in out.split("\n")] == ['{"schema":1,'] * 2


def test_name_that_is_no_utf8_is_made_one(diarize, recordings):
    (recordings / "a.wav").rename(recordings / os.fsdecode(b"a\xff.wav"))
    code, out, _ = diarize(os.fsdecode(b"a\xff.wav"))
    assert (code, out.split()[1]) == (0, "a?")


@pytest.mark.parametrize("mode", ["server", "block", "blocks"])
def test_modes_give_the_same_bytes(diarize, mode):
    assert diarize("--mode", mode, "a.wav", "--json", "-") == diarize("a.wav", "--json", "-")


def test_options_are_passed_on(server, diarize):
    diarize("--min-speakers", "1", "--max-speakers", "3", "--file-id", "x y", "--timeout", "7", "a.wav")
    (call,) = server.calls
    parameters = {key: call.parameters[key] for key in ("min_speakers", "max_speakers", "file_id")}
    assert parameters == {"min_speakers": 1, "max_speakers": 3, "file_id": "x_y"}
    assert 6_000_000 < call.timeout <= 7_000_000


def test_bad_recording_does_not_stop_the_others(diarize):
    code, out, err = diarize("bad.wav", "nowhere.wav", "a.wav")
    assert code == 3
    assert out.startswith("SPEAKER a ")
    assert err.splitlines() == [
        "diarize: bad.wav: it has 0 bytes",
        "diarize: nowhere.wav: No such file or directory",
        "diarize: 1 of 3 recordings done",
    ]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        pytest.param("E_AUDIO_TOO_LONG|got 5 h", 3, id="audio"),
        pytest.param("E_OPTION_UNKNOWN|got x", 4, id="option"),
        pytest.param("E_CANCELLED|gone", 8, id="cancelled"),
        pytest.param("E_INTERNAL|internal error; see the server log", 1, id="internal"),
    ],
)
def test_error_of_the_server_is_one_line_and_a_code(server, diarize, message, code):
    def refuse(call):
        raise Refusal("INTERNAL", message)

    server.models["diarize"] = refuse
    assert diarize("a.wav") == (code, "", f"diarize: a.wav: {message.partition('|')[2]}\n")


def test_server_that_is_not_there_is_said_once(diarize):
    code, out, err = diarize("--timeout", "1", "a.wav", "b.wav", url=UNUSED)
    assert (code, out) == (5, "")
    again, first, last = err.splitlines()
    assert again.startswith(f"diarize: warning: no answer from {UNUSED}: ")
    assert again.endswith("; trying again")
    assert first.startswith(f"diarize: no answer from {UNUSED}: ")
    assert last == "diarize: 0 of 2 recordings done; not done: a.wav, b.wav"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--num-speakers", "0", "a.wav"], 4, id="no-speakers"),
        pytest.param(["--num-speakers", "2", "--min-speakers", "2", "a.wav"], 4, id="both"),
        pytest.param(["--channel", "1", "a.wav"], 4, id="channel"),
        pytest.param(["--json", "no/such/folder.json", "a.wav"], 1, id="no-folder"),
        pytest.param(["--rttm", ".", "a.wav"], 1, id="a-folder"),
        pytest.param(["--url", "localhost:8001", "a.wav"], 1, id="url"),
    ],
)
def test_bad_option_is_one_line_and_nothing_is_sent(server, diarize, arguments, code):
    got, out, err = diarize(*arguments)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert err.startswith("diarize: ")
    assert server.calls == []


@pytest.mark.parametrize(
    "arguments",
    [[], ["--mode", "cloud", "a.wav"], ["--file-id", "x", "a.wav", "b.wav"], ["--speed", "a.wav"]],
)
def test_wrong_usage_exits_with_2(diarize, arguments):
    with pytest.raises(SystemExit) as end:
        diarize(*arguments)
    assert end.value.code == exit_codes.USAGE


def test_fault_of_the_client_is_one_line(server, diarize):
    server.models["diarize"] = lambda call: {"RESULT": np.zeros(1, np.float32), "EMBEDDINGS": np.zeros(1)}
    code, _, err = diarize("a.wav")
    assert code != 0
    assert (err.count("\n"), "Traceback" in err) == (1, False)


def test_note_of_a_recording_is_a_warning_unless_quiet(diarize, recordings):
    whole = (recordings / "a.wav").read_bytes()
    (recordings / "a.wav").write_bytes(whole[:-8000])
    _, _, err = diarize("a.wav")
    assert err == "diarize: warning: a.wav: truncated: 1.750 s of the 2.000 s that its header promises\n"
    _, _, err = diarize("-q", "a.wav")
    assert err == ""


def test_help_is_one_screen_and_names_every_exit_code(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    text = capsys.readouterr().out
    codes = text[text.index("exit codes:") :]
    assert all(re.search(rf"\b{code}\b", codes) for code in [*range(9), 130])
    assert len(text.splitlines()) <= 55
    assert max(map(len, text.splitlines())) <= 100


def test_ctrl_c_ends_quietly(server, url, recordings):
    server.models["diarize"] = lambda call: time.sleep(1) or {}
    with subprocess.Popen(
        [sys.executable, "-m", "diar_client.command", "--url", url, "a.wav"],
        cwd=recordings,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 20
        while not server.calls and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (exit_codes.INTERRUPTED, "diarize: interrupted\n")


def test_reader_that_goes_away_is_no_error(url, recordings):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        process = subprocess.run(
            [sys.executable, "-m", "diar_client.command", "--url", url, "a.wav"],
            cwd=recordings,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (process.returncode, process.stderr) == (exit_codes.BROKEN_PIPE, "")


def test_client_imports_neither_torch_nor_a_server():
    code = """
import sys, diar_client, diar_client.command, diar_client.grpc_connection, diar_client.http_connection
print([name for name in sys.modules if name.split(".")[0] in
       ("torch", "openvino", "onnxruntime", "pytriton", "triton_python_backend_utils", "tritonserver")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
