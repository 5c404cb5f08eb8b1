"""The server without our client: the examples of README.md and docs/clients.md, as they stand there."""

import json
import re
import shutil
import subprocess
import sys
import wave

import av
import numpy as np
import pytest
from live import ROOT

SECOND = 16_000
FENCED = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED_CURL = re.compile(r"^    (curl(?:.*\\\n)*.*)$", re.MULTILINE)
WISHES = {"max_speakers": 4, "file_id": "meeting"}
NOTHING_OF_OURS = (
    "\nimport sys\nassert not any(name.split('.')[0] in ('diar', 'diar_client') for name in sys.modules)\n"
)


def examples(language, word):
    """The examples of docs/clients.md in a language that hold a word."""
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    return [text for kind, text in FENCED.findall(page) if kind == language and word in text]


def example(language, word):
    (text,) = examples(language, word)
    return text


@pytest.fixture(scope="module")
def samples(speech):
    return speech[7 * SECOND : 17 * SECOND]


@pytest.fixture(scope="module")
def folder(samples, tmp_path_factory):
    """Where the examples are run: meeting.wav and meeting.mp3 are there."""
    folder = tmp_path_factory.mktemp("raw")
    with wave.open(str(folder / "meeting.wav"), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    with av.open(str(folder / "meeting.wav")) as source, av.open(str(folder / "meeting.mp3"), "w") as target:
        stream = target.add_stream("libmp3lame", rate=SECOND, layout="mono")
        for frame in [*source.decode(audio=0), None]:
            target.mux(stream.encode(frame))
    return folder


@pytest.fixture(scope="module")
def expected(grpc, samples):
    return grpc.infer({"PCM": samples}, WISHES)["RTTM"][0].decode()


@pytest.fixture
def run(server, folder):
    """Run an example with the ports of the test's server; the finished process."""

    def run_command(*command):
        http, grpc, *_ = map(str, server.ports)
        command = [
            re.sub(r":800[01]\b", lambda m: ":" + {"0": http, "1": grpc}[m[0][-1]], c) for c in command
        ]
        return subprocess.run(command, capture_output=True, check=False, timeout=120, cwd=folder, text=True)

    return run_command


def to_http(example):
    """What the comments of the asyncio example say."""
    changes = {"tritonclient.grpc": "tritonclient.http", '8001")': '8000", conn_timeout=600)'}
    for old, new in changes.items():
        assert old in example
        example = example.replace(old, new)
    return example


PYTHON = {
    "grpc": example("python", "import tritonclient.grpc as triton\n\nwith"),
    "http": example("python", "import tritonclient.http as"),
    "grpc-aio": example("python", "asyncio.run"),
    "http-aio": to_http(example("python", "asyncio.run")),
    "json": example("python", "urllib.request"),
}


@pytest.mark.parametrize("code", PYTHON.values(), ids=PYTHON.keys())
def test_python_example_prints_the_rttm(run, expected, code):
    done = run(sys.executable, "-W", "error", "-c", code + NOTHING_OF_OURS)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_live_example_shows_turns_that_are_final_and_prints_the_rttm(run, expected):
    done = run(sys.executable, "-c", example("python", "diarize_stream") + NOTHING_OF_OURS)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    turns = [line.split() for line in done.stderr.splitlines()]
    assert {speaker for _, _, speaker in turns} <= {"SPEAKER_00", "SPEAKER_01"}
    assert 7.9 < max(float(end) for _, end, _ in turns) < 8.1  # 10 s, 2 s late


def test_every_python_example_is_run():
    assert len(examples("python", "")) == len(PYTHON)  # two of asyncio, one of a stream


@pytest.fixture
def curl():
    if shutil.which("curl") is None:
        pytest.skip("no curl here")


@pytest.mark.usefixtures("curl")
def test_curl_sends_json(run, folder, samples, expected):
    tensor = {"name": "PCM", "datatype": "INT16", "shape": [len(samples)], "data": samples.tolist()}
    document = {"inputs": [tensor], "parameters": WISHES}
    (folder / "request.json").write_text(json.dumps(document))
    answer = json.loads(run("sh", "-c", example("sh", "@request.json")).stdout)
    assert {output["name"]: output["data"] for output in answer["outputs"]}["RTTM"] == [expected]


CURLS = {
    "clients": [example("sh", "--data-binary")],
    **{
        page.stem: INDENTED_CURL.findall(page.read_text(encoding="utf-8"))
        for page in (ROOT / "README.md", ROOT / "docs" / "streaming.md")
    },
}


@pytest.mark.usefixtures("curl")
@pytest.mark.parametrize("commands", CURLS.values(), ids=CURLS.keys())
def test_curl_example_prints_the_rttm_of_a_file(run, grpc, folder, commands):
    (command,) = commands
    content = np.array([(folder / "meeting.mp3").read_bytes()], dtype=np.object_)
    wishes = {"num_speakers": 2} | ({"file_id": "meeting"} if "diar-file-id" in command else {})
    direct = grpc.infer({"FILE": content}, wishes, model="diarize_file")["RTTM"][0].decode()
    done = run("sh", "-c", command)
    assert (done.returncode, done.stdout) == (0, direct.lstrip("\n")), done.stderr
