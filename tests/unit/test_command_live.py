"""``diarize --live``: pipes, files in real time, the drawing."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import wave

import av
import numpy as np
import pytest
from diar_client.decode import decode_stream
from diar_client.live_source import PIECE_SAMPLES, paced, threaded
from diar_client.live_view import LiveView, TurnJoiner
from diar_client.sound_pipe import SoundPipe, raw_pcm
from diar_client.stream import LiveUpdate
from scripted_server import scripted_server

from diar.errors import InvalidAudio
from diar.turns import Turn

SECOND = 16_000


@pytest.fixture
def server(profile):
    return scripted_server(profile)


@pytest.fixture
def url(server):
    url, stop = server.serve_grpc()
    yield url
    stop()


@pytest.fixture
def diarize(url, tmp_path):
    """Runs ``diarize --live`` with a pipe; returns the finished process."""

    def run(*arguments, sound=b""):
        command = [sys.executable, "-m", "diar_client.command", "--live", "--url", url, *arguments]
        return subprocess.run(
            command, input=sound, capture_output=True, check=False, timeout=30, cwd=tmp_path
        )

    return run


@pytest.fixture(scope="module")
def speech():
    """(samples,) int16: 12 s of one speaker, a ramp so that every sample tells where it is."""
    return (np.arange(12 * SECOND) % 300 + 3200).astype(np.int16)


def wav(samples, rate=SECOND, channels=1):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(samples.tobytes())
    return file.getvalue()


def encoded(samples, container, codec, rate):
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = SECOND
        resampler = av.AudioResampler(
            stream.format, stream.layout, rate, frame_size=stream.frame_size or None
        )
        for piece in [*resampler.resample(frame), *resampler.resample(None), None]:
            for packet in stream.encode(piece):
                out.mux(packet)
    return file.getvalue()


def piped(sound, read):
    """What ``read`` makes of ``sound`` that comes through a pipe."""
    reading, writing = os.pipe()

    def write():
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(sound)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return np.concatenate(list(read(reading)))
    finally:
        os.close(reading)
        thread.join()


def test_pipe_gives_the_samples_of_the_file(speech):
    for sound in (
        wav(speech),
        wav(speech, rate=8000),
        wav(speech, channels=2),
        encoded(speech, "flac", "flac", SECOND),
    ):
        expected = decode_stream(io.BytesIO(sound), "x").samples
        assert np.array_equal(piped(sound, lambda pipe: SoundPipe(pipe).pcm(None)), expected)


def test_compressed_pipe_is_as_long_as_the_file(speech):
    sound = encoded(speech, "ogg", "libopus", 48_000)
    expected = decode_stream(io.BytesIO(sound), "x").samples
    assert len(piped(sound, lambda pipe: SoundPipe(pipe).pcm(None))) == len(expected)


def test_one_channel_can_be_taken(speech):
    stereo = wav(np.stack([speech, -speech], axis=1), channels=2)
    assert np.array_equal(piped(stereo, lambda pipe: SoundPipe(pipe).pcm(1)), -speech)


@pytest.mark.parametrize(
    ("sound", "word"), [(b"", "E_AUDIO_FORMAT"), (b"no sound at all " * 99, "E_AUDIO_FORMAT")]
)
def test_pipe_without_sound_is_refused(sound, word):
    with pytest.raises(InvalidAudio, match=word):
        piped(sound, lambda pipe: SoundPipe(pipe).pcm(None))


def test_raw_samples_need_no_header(speech):
    assert np.array_equal(piped(speech.tobytes(), lambda pipe: raw_pcm(pipe, SECOND)), speech)
    assert np.array_equal(piped(speech.tobytes() + b"x", lambda pipe: raw_pcm(pipe, SECOND)), speech)
    assert len(piped(speech.tobytes(), lambda pipe: raw_pcm(pipe, 48_000))) == len(speech) // 3


def collect(source):
    async def run():
        return [(time.monotonic(), piece) async for piece in source(asyncio.Event())]

    return asyncio.run(run())


def test_file_comes_at_the_pace_of_speech(speech):
    begin = time.monotonic()
    pieces = collect(lambda stop: paced(speech[:SECOND], stop))
    assert np.array_equal(np.concatenate([piece for _, piece in pieces]), speech[:SECOND])
    sent = 0
    for at, piece in pieces:
        sent += len(piece)
        assert at - begin >= sent / SECOND - 0.01


def test_paced_file_ends_early_when_told(speech):
    async def run():
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, stop.set)
        return [len(piece) async for piece in paced(speech, stop)]

    assert 0.25 * SECOND < sum(asyncio.run(run())) < 2 * SECOND


def test_what_waits_is_sent_in_one_piece(speech):
    pieces = collect(lambda stop: threaded(iter(np.split(speech, 1200)), stop))
    assert np.array_equal(np.concatenate([piece for _, piece in pieces]), speech)
    assert all(len(piece) >= PIECE_SAMPLES for _, piece in pieces[:-1])


def test_error_of_the_source_comes_after_its_samples(speech):
    def broken():
        yield speech[:100]
        raise InvalidAudio("E_AUDIO", "torn")

    async def run():
        async for piece in threaded(broken(), asyncio.Event()):
            seen.append(len(piece))

    seen = []
    with pytest.raises(InvalidAudio, match="torn"):
        asyncio.run(run())
    assert seen == [100]


@pytest.mark.parametrize("raw", [False, True])
def test_pipe_ends_in_the_result_of_the_recording(server, diarize, speech, raw):
    arguments = ["--pcm", "16000", "-"] if raw else ["-"]
    done = diarize(*arguments, "-f", "json", sound=speech.tobytes() if raw else wav(speech))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["duration"] == 12
    assert b"SPEAKER_00" in done.stderr  # turns as they became final
    sent = [call for call in server.calls if call.inputs]
    assert np.array_equal(np.concatenate([call.inputs["PCM"] for call in sent]), speech)


def test_file_is_named_and_written_as_usual(diarize, speech, tmp_path):
    (tmp_path / "Team call.wav").write_bytes(wav(speech[:SECOND]))
    done = diarize("-q", "-f", "rttm,srt", "-o", "out", "Team call.wav")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "out/Team call.rttm").read_text().startswith("SPEAKER Team_call 1 0.000 1.000 ")
    assert (tmp_path / "out/Team call.srt").exists()


def test_pipe_without_sound_is_one_line(diarize):
    done = diarize("-", sound=b"")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (3, b"", 1)


def test_ctrl_c_ends_the_recording_not_the_work(server, url, speech):
    command = [sys.executable, "-m", "diar_client.command", "--live", "--pcm", "16000", "--url", url, "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(speech[: 4 * SECOND].tobytes())
        process.stdin.flush()
        deadline = time.monotonic() + 20
        while (
            sum(len(call.inputs["PCM"]) for call in server.calls) < 4 * SECOND and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out = process.stdout.read()
        assert process.wait(20) == 0, process.stderr.read()
    assert out == b"SPEAKER live 1 0.000 4.000 <NA> <NA> SPEAKER_00 <NA> <NA>\n"


def update(position_s, committed, tentative, final_to_s):
    def turns(rows):
        return tuple(Turn(round(a * SECOND), round(b * SECOND), f"SPEAKER_{s:02d}") for a, b, s in rows)

    latency = round((position_s - final_to_s) * SECOND)
    return LiveUpdate(round(position_s * SECOND), turns(committed), turns(tentative), latency)


def test_turns_are_joined_across_updates():
    joiner = TurnJoiner()
    assert joiner.add(update(2, [(0.5, 1, 0)], [], 1)) == []
    assert joiner.add(update(3, [(1, 2, 0), (1.5, 2, 1)], [], 2)) == []
    over = joiner.add(update(4, [(2, 2.4, 1)], [], 3))
    assert [(t.start, t.end, t.speaker) for t in over] == [
        (8_000, 32_000, "SPEAKER_00"),
        (24_000, 38_400, "SPEAKER_01"),
    ]


def test_drawing_shows_final_and_tentative_turns_up_to_now():
    view = LiveView()
    view.add(update(4, [(0, 3, 0)], [(3, 4, 1)], 3))
    lines = [line.plain for line in view.lines(60)]
    assert lines[0].startswith("0:04, final up to 0:03")
    assert lines[2] == f"SPEAKER_00  {'█' * 6}".ljust(52) + "   3.0 s"[-8:]
    assert lines[3] == f"SPEAKER_01  {' ' * 6}▒▒".ljust(52) + "   0.0 s"[-8:]


def test_drawing_says_when_the_server_is_too_slow():
    view = LiveView()
    view.add(update(4, [], [], 3))
    assert next(view.lines(60, 5)).plain == "0:04, final up to 0:03; Ctrl-C ends it"
    assert next(view.lines(60, 14)).plain == "0:04, 10 s behind, final up to 0:03; Ctrl-C ends it"


def test_drawing_scrolls_and_stays_within_its_width():
    view = LiveView()
    for second in range(0, 3600, 10):
        view.add(update(second + 10, [(second, second + 9, second // 10 % 3)], [], second + 9))
    lines = [line.plain for line in view.lines(80)]
    assert len(lines) == 2 + 3
    assert max(map(len, lines)) <= 80
    assert "|59:50" in lines[1]
    assert len(view._recent) < 10
