"""The command and the client's streams against the real server."""

import json
import subprocess
import sys
import wave

import numpy as np
import pytest
from diar_client import DiarizationClient
from live import DATA, read_recording

from diar.result import Diarization

SECOND = 16_000


@pytest.fixture(scope="session")
def url(server):
    return f"grpc://127.0.0.1:{server.ports[1]}"


@pytest.fixture
def diarize(url, tmp_path):
    """Runs the command in ``tmp_path``; gives the finished process."""

    def run(*arguments, sound=b""):
        command = [sys.executable, "-m", "diar_client.command", *map(str, arguments), "--url", url]
        return subprocess.run(
            command, input=sound, capture_output=True, check=False, timeout=300, cwd=tmp_path
        )

    return run


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(samples.tobytes())


def test_folder_of_recordings_becomes_files_in_every_format(diarize, grpc, speech, tmp_path):
    (tmp_path / "calls").mkdir()
    parts = {"ä b": speech[: 12 * SECOND], "..x": speech[12 * SECOND : 20 * SECOND]}
    for name, samples in parts.items():
        write_wav(tmp_path / "calls" / f"{name}.wav", samples)
    (tmp_path / "calls" / "broken.mp3").write_bytes(b"")
    done = diarize("calls", "-f", "rttm,json,srt,vtt,csv,textgrid", "-o", "out", "calls/..x.wav")
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == [
        "diarize: calls/broken.mp3: it has 0 bytes",
        "diarize: 2 of 3 recordings done",
    ]
    assert len(list((tmp_path / "out").iterdir())) == 2 * 6
    for name, stem in (("ä b", "ä b"), ("..x", "_..x")):
        assert (tmp_path / "out" / f"{stem}.json").read_bytes() == grpc.diarize(parts[name])


def test_stream_in_pieces_of_any_size_gives_the_server_s_bytes(url, grpc, speech):
    sizes = np.random.default_rng(1).integers(160, 10 * SECOND, 40)
    pieces = np.split(speech, np.cumsum(sizes)[np.cumsum(sizes) < len(speech)])
    with DiarizationClient(url, timeout_s=300) as client, client.stream(latency=5.0, step=5.0) as stream:
        updates = list(stream.updates(pieces))
    assert stream.result.to_json() == grpc.diarize(speech)
    ends = [turn.end for update in updates for turn in update.committed]
    assert ends
    assert max(ends) <= len(speech)
    assert updates[-1].num_samples == pytest.approx(len(speech), abs=8)


def test_live_pipe_ends_in_the_server_s_bytes(diarize, grpc, speech):
    samples = speech[: 12 * SECOND]
    done = diarize("--live", "--pcm", SECOND, "-", "-f", "json", sound=samples.tobytes())
    assert (done.returncode, done.stdout) == (0, grpc.diarize(samples))
    assert b"SPEAKER_00" in done.stderr


def test_progress_comes_from_the_server(url, grpc, speech):
    samples = np.concatenate([speech, speech[: 15 * SECOND]])
    seen = []
    with DiarizationClient(url, timeout_s=300) as client:
        result = client.diarize(samples, mode="server", progress=lambda *done: seen.append(done))
    assert seen[-1] == (2, 2)
    assert result.to_json() == grpc.diarize(samples)
    assert np.allclose(np.linalg.norm(result.embeddings, axis=1), 1, atol=1e-5)


@pytest.fixture(scope="module")
def people():
    """Three speakers with four utterances each, the longest first: name -> [(samples,) int16, …]."""
    folders = [folder for folder in sorted((DATA / "single").glob("*")) if len(list(folder.iterdir())) >= 4]
    if len(folders) < 3:
        pytest.skip(f"no three speakers with four utterances at {DATA / 'single'}")
    return {
        folder.name: sorted((read_recording(file) for file in folder.iterdir()), key=len, reverse=True)
        for folder in folders[:3]
    }


def test_enrolled_speakers_are_named_and_a_third_is_not(diarize, people, tmp_path):
    names = list(people)
    for name in names[:2]:
        for index in (2, 3):
            write_wav(tmp_path / f"{name}-{index}.wav", people[name][index])
        done = diarize("enroll", name, f"{name}-2.wav", f"{name}-3.wav")
        assert done.returncode == 0, done.stderr
    turns = [(name, people[name][index][: 8 * SECOND]) for index in (0, 1) for name in names]
    write_wav(tmp_path / "talk.wav", np.concatenate([samples for _, samples in turns]))
    done = diarize("--speakers", "voices", "-f", "json", "talk.wav")
    assert done.returncode == 0, done.stderr
    result = Diarization.from_json(done.stdout, np.zeros((0, 192), np.float32))
    scores = {speaker["label"]: speaker.get("voice_score") for speaker in json.loads(done.stdout)["speakers"]}
    (stranger,) = scores.keys() - set(names[:2])
    assert stranger.startswith("SPEAKER_")
    assert scores[stranger] is None
    assert min(scores[names[0]], scores[names[1]]) > 0.55
    edges = np.cumsum([0] + [len(samples) for _, samples in turns])
    for index, (name, _) in enumerate(turns):
        heard = dict.fromkeys(scores, 0)
        for turn in result.turns:
            heard[turn.speaker] += max(0, min(turn.end, edges[index + 1]) - max(turn.start, edges[index]))
        assert max(heard, key=heard.get) == (name if name in names[:2] else stranger)
