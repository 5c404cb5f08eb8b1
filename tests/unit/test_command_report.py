"""The command's --html and --png, and -f html,png."""

import json
import re
import wave

import numpy as np
import pytest
from diar_client import command
from scripted_server import scripted_server


@pytest.fixture
def diarize(profile, tmp_path, monkeypatch, capfd):
    """Runs the command beside a.wav and calls/b.wav of 2 s; returns (exit code, output, errors)."""
    url, stop = scripted_server(profile).serve_grpc()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calls").mkdir()
    for name in ("a.wav", "calls/b.wav"):
        with wave.open(str(tmp_path / name), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(np.full(32_000, 3277, np.int16).tobytes())

    def run(*arguments):
        try:
            code = command.main([*arguments, "--url", url])
        except SystemExit as end:
            code = end.code
        return (code, *capfd.readouterr())

    yield run
    stop()


def page_data(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def test_page_and_picture_of_one_recording(diarize, tmp_path):
    code, out, err = diarize("a.wav", "--html", "a.html", "--png", "a.png", "--rttm", "-")
    assert (code, err) == (0, "")
    assert out == "SPEAKER a 1 0.000 2.000 <NA> <NA> SPEAKER_00 <NA> <NA>\n"
    data = page_data(tmp_path / "a.html")
    assert (data["sound"], data["name"], data["fileId"]) == ("embedded", "a", "a")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_folder_gets_a_page_and_a_picture_for_each_recording(diarize, tmp_path):
    code, out, err = diarize("a.wav", "calls", "-f", "html,png,json", "-o", "out")
    assert (code, out, err) == (0, "", "")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"{stem}{suffix}" for stem in "ab" for suffix in (".html", ".png", ".json")}
    assert (tmp_path / "out" / "b.json").read_text() in (tmp_path / "out" / "b.html").read_text()


def test_sound_over_the_limit_is_linked_relatively(diarize, tmp_path):
    assert diarize("calls/b.wav", "-f", "html", "-o", "out", "--embed", "0")[0] == 0
    data = page_data(tmp_path / "out" / "b.html")
    assert (data["sound"], data["link"]) == ("linked", "../calls/b.wav")


def test_page_can_go_to_standard_output(diarize):
    code, out, _ = diarize("a.wav", "-f", "html")
    assert code == 0
    assert out.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a.wav", "calls", "--html", "x.html"], "--html and --png show one recording"),
        (["calls", "-f", "png"], "several recordings as png need a folder"),
        (["a.wav", "--html", "x.html", "--embed", "-1"], "got -1, expected 0 or more"),
    ],
)
def test_wrong_usage_is_said(diarize, arguments, reason):
    code, _, err = diarize(*arguments)
    assert code == 2
    assert reason in err


def test_missing_matplotlib_is_said_before_the_work(diarize, monkeypatch):
    monkeypatch.setattr("diar_client.report.picture.importlib.util.find_spec", lambda name: None)
    code, out, err = diarize("a.wav", "--png", "a.png")
    assert (code, out) == (1, "")
    assert "pip install 'diar-triton[report]'" in err


def test_page_that_cannot_be_written_is_said(diarize):
    code, _, err = diarize("a.wav", "--html", "nowhere/a.html")
    assert code == 1
    assert err == "diarize: cannot write nowhere/a.html: no such folder, or a folder itself\n"


def test_live_recording_becomes_a_page_with_its_sound(diarize, tmp_path):
    assert diarize("--live", "a.wav", "--html", "live.html")[0] == 0
    data = page_data(tmp_path / "live.html")
    assert (data["sound"], data["duration"]) == ("embedded", 2.0)


def test_kept_result_becomes_the_same_page_without_a_server(diarize, tmp_path):
    diarize("a.wav", "--json", "a.json", "--html", "a.html")
    assert command.main(["report", "a.json", "a.wav", "--html", "again.html", "--png", "again.png"]) == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "a.html").read_bytes()
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")
    assert command.main(["report", "a.json", "--html", "turns.html"]) == 0
    assert page_data(tmp_path / "turns.html")["sound"] == "none"


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}', '{"schema": 1}', "{}\n{}"])
def test_anything_but_a_kept_result_is_refused(diarize, tmp_path, text, capfd):
    (tmp_path / "no.json").write_text(text)
    assert command.main(["report", "no.json", "--html", "no.html"]) == 1
    assert capfd.readouterr().err.startswith("diarize: no.json: not one RESULT document: ")
    assert not (tmp_path / "no.html").exists()
