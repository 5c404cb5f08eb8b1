"""The client and its command against the real server."""

import json
import subprocess
import sys
import wave
from collections import Counter
from contextlib import suppress

import av
import numpy as np
import pytest
from diar_client import BlockClient, DiarizationClient
from live import DATA

from diar.errors import Cancelled, InvalidAudio

ODD = DATA / "odd"
WAYS = [(protocol, mode) for protocol in ("grpc", "http") for mode in ("server", "blocks")]


@pytest.fixture(scope="session")
def urls(server):
    """The server's URL by protocol."""
    http, grpc, *_ = server.ports
    return {"http": f"http://127.0.0.1:{http}", "grpc": f"grpc://127.0.0.1:{grpc}"}


@pytest.fixture
def diarize(urls):
    """Runs the command; gives the finished process."""

    def run(*arguments, protocol="grpc"):
        command = [sys.executable, "-m", "diar_client.command", "--url", urls[protocol], *map(str, arguments)]
        return subprocess.run(command, capture_output=True, check=False, timeout=300)

    return run


@pytest.fixture(scope="module")
def recording(speech, tmp_path_factory):
    """12 s of two people as a file: (path, samples)."""
    samples = speech[112_000:304_000]
    path = tmp_path_factory.mktemp("client") / "two people.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return path, samples


@pytest.fixture(scope="module")
def answer(grpc, recording):
    """What the server says about it to plain tritonclient."""
    return grpc.infer({"PCM": recording[1]}, {"file_id": "two_people"})


@pytest.mark.parametrize(("protocol", "mode"), WAYS)
def test_client_gives_the_server_s_bytes(urls, recording, answer, protocol, mode):
    with DiarizationClient(urls[protocol], timeout_s=300) as client:
        result = client.diarize(recording[0], mode=mode)
    assert len(result.speakers) == 2
    assert result.to_json() == answer["RESULT"][0]
    assert result.to_rttm().encode() == answer["RTTM"][0]
    assert np.allclose(result.embeddings, answer["EMBEDDINGS"], atol=1e-6)


def test_block_mode_of_several_blocks_gives_the_server_s_bytes(urls, grpc, speech):
    twice = np.concatenate([speech, speech[:240_000]])
    seen = []
    with DiarizationClient(urls["grpc"], timeout_s=300) as client:
        result = client.diarize(twice, mode="blocks", progress=lambda *done: seen.append(done))
    assert result.to_json() == grpc.diarize(twice)
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("mode", ["server", "blocks"])
@pytest.mark.parametrize("length", [1, 160, 159_999, 656_001])
def test_any_length_without_speech_is_an_empty_success(urls, mode, length):
    with DiarizationClient(urls["grpc"], timeout_s=300) as client:
        result = client.diarize(np.zeros(length, np.int16), mode=mode)
    assert (result.num_samples, result.turns, result.embeddings.shape) == (length, (), (0, 192))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_wishes_reach_the_server(urls, recording, protocol):
    with DiarizationClient(urls[protocol], timeout_s=300) as client:
        result = client.diarize(recording[1], num_speakers=1, timings=True)
    assert (result.requested, len(result.speakers)) == (1, 1)
    assert result.timings["total"] > 0


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_refusal_of_the_server_comes_by_name(urls, protocol):
    with BlockClient(urls[protocol], timeout_s=60) as client, pytest.raises(InvalidAudio) as failure:
        client.run(np.zeros(160_001, np.float32))
    assert failure.value.word.startswith("E_SPAN")


@pytest.mark.parametrize(("protocol", "mode"), WAYS)
def test_time_out_ends_the_call_and_the_next_one_works(urls, speech, protocol, mode):
    with (
        DiarizationClient(urls[protocol], timeout_s=0.05) as client,
        pytest.raises(Cancelled),
    ):
        client.diarize(speech, mode=mode)
    with DiarizationClient(urls[protocol], timeout_s=60) as client:
        assert client.diarize(speech[:8_000], mode=mode).num_samples == 8_000


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_block_client_runs_the_networks(urls, speech, protocol):
    with BlockClient(urls[protocol], timeout_s=60) as client:
        geometry = client.profile.geometry
        span = speech[: geometry.span_samples(4)].astype(np.float32) / 32768
        result = client.run(span)
    assert result.logits.shape == (4, geometry.frames, geometry.num_classes)
    assert np.abs(np.exp(result.logits).sum(axis=-1) - 1).max() < 1e-3
    assert all(result.lanes)


def test_command_prints_rttm_and_writes_json(diarize, recording, answer, tmp_path):
    done = diarize("--rttm", "-", "--json", tmp_path / "out.json", recording[0])
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", answer["RTTM"][0])
    assert (tmp_path / "out.json").read_bytes() == answer["RESULT"][0]


ODD_REFUSED = {
    "azure_missing_header.wav",
    "nan_inf_float.wav",
    "pydub_empty_header_only.wav",
    "text_named.mp3",
    "trunc.mp3",
    "trunc_header.wav",
    "zero_bytes.mp3",
    "zero_samples.wav",
}


def decoded_seconds(file):
    """Seconds of what libav decodes, whatever the header says; what it cannot is left out."""
    seconds = 0.0
    with av.open(str(file)) as container:
        for packet in container.demux(audio=0):
            with suppress(av.error.InvalidDataError):
                seconds += sum(frame.samples / frame.sample_rate for frame in packet.decode())
    return seconds


@pytest.fixture(scope="module")
def odd():
    if not ODD.is_dir():
        pytest.skip(f"no data at {ODD}")
    return sorted(ODD.iterdir())


def test_odd_files_in_one_run_are_results_or_one_line_each(diarize, odd, tmp_path):
    done = diarize("-f", "json", "-o", tmp_path, *odd)
    lines = done.stderr.decode().splitlines()
    failures = [line.removeprefix(f"diarize: {ODD}/") for line in lines if "warning: " not in line][:-1]
    assert (done.returncode, done.stdout) == (3, b"")
    assert sorted(line.split(": ")[0] for line in failures) == sorted(ODD_REFUSED)
    assert lines[-1] == f"diarize: {len(odd) - len(ODD_REFUSED)} of {len(odd)} recordings done"
    stems = Counter(file.stem for file in odd)
    for file in odd:
        result = tmp_path / f"{file.stem if stems[file.stem] == 1 else file.name}.json"
        assert result.exists() == (file.name not in ODD_REFUSED), file.name
        if file.suffix in (".mp3", ".m4a", ".opus", ".flac") and result.exists():
            duration = json.loads(result.read_bytes())["duration"]
            assert duration == pytest.approx(decoded_seconds(file), abs=1e-3), file.name
