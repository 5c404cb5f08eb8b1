"""Live recordings on a real server: with scripted networks for everything but the sound itself."""

import asyncio
import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import numpy as np
import pytest
from diar_client import DiarizationClient
from health import meeting, seconds_until, stubs
from live import each_recording, start_and_wait
from scripted_repository import edit, scripted_repository
from streams import LiveWire, new_id, random_pieces
from tritonclient.utils import InferenceServerException

from diar.tools.real_time_streams import Listening, holds, play_many

SECOND = 16_000
PROTOCOLS = ["http", "grpc", "grpc-stream"]
FEW = ["ami_EN2002a", "pyannote_sample"]
EACH = each_recording(FEW)


@pytest.fixture(scope="module")
def scripted(weights, tmp_path_factory):
    """A server whose networks take 0.03 s for a block, with room for 8 streams that may be silent for 2 s."""
    folder = tmp_path_factory.mktemp("streams")
    repository = scripted_repository(folder, block_s=0.03, only=("diarize", "diarize_stream"))
    edit(
        repository / "diarize_stream",
        ("max_sequence_idle_microseconds: 60000000", "max_sequence_idle_microseconds: 2000000"),
        ('"idle_s" value { string_value: "90"', '"idle_s" value { string_value: "3"'),
        ('"max_streams" value { string_value: "32"', '"max_streams" value { string_value: "8"'),
    )
    served = start_and_wait(["--model-repository", repository], folder / "log")
    yield served
    assert served.stop() == 0, served.log.read_text()[-4000:]
    assert served.regions() == []
    served.process.stdout.close()


@pytest.fixture(params=PROTOCOLS)
def each_wire(request, scripted):
    wire = LiveWire(request.param, scripted)
    yield wire
    wire.close()


@pytest.fixture(scope="module")
def wire(scripted):
    wire = LiveWire("grpc", scripted)
    yield wire
    wire.close()


@pytest.fixture(scope="module")
def whole(scripted, connect):
    return connect("grpc", scripted).diarize


def test_every_protocol_ends_with_the_bytes_of_diarize(each_wire, whole):
    samples = meeting(1.6)
    assert each_wire.stream_all(samples, random_pieces(len(samples), 1)) == whole(samples)


def test_tiny_pieces_of_both_types_end_with_the_bytes_of_diarize(wire, whole):
    samples, stream = meeting(0.1), new_id()
    for index, start in enumerate(range(0, len(samples), 160)):
        piece = samples[start : start + 160]
        piece = piece if index % 2 else piece.astype(np.float32) / 32768
        answer = (
            wire.send(stream, piece, start=index == 0, latency=0.5)
            if index == 0
            else wire.send(stream, piece)
        )
    assert json.loads(answer["RESULT"][0])["position"] == 6.0
    assert wire.send(stream, end=True)["RESULT"][0] == whole(samples)


def test_live_answers_and_the_end_are_complete(each_wire):
    samples, stream = meeting(0.5, seed=3), new_id()
    view = json.loads(each_wire.send(stream, samples, start=True, latency=0.5)["RESULT"][0])
    assert (view["final"], view["position"]) == (False, 30.0)
    assert view["committed"]
    assert 0.5 <= view["latency"] < 0.52
    end = each_wire.send(stream, end=True)
    assert json.loads(end["RESULT"][0])["duration"] == 30.0
    assert end["RTTM"][0].startswith(b"SPEAKER recording 1 ")
    assert end["EMBEDDINGS"].shape[1] == 192


@pytest.mark.parametrize("stream", [2**63 - 1, 1, "meeting-1", "meeting-2"])
def test_ids_are_numbers_or_texts(wire, whole, stream):
    samples = meeting(0.3)
    assert wire.stream_all(samples, 3, stream) == whole(samples)


def test_four_streams_at_once_end_as_one_after_the_other(scripted, whole):
    recordings = [meeting(1.2, seed) for seed in range(4)]
    expected = [whole(samples) for samples in recordings]

    def run(seed):
        wire = LiveWire("grpc" if seed % 2 else "http", scripted)
        try:
            samples = recordings[seed]
            return wire.stream_all(samples, random_pieces(len(samples), seed), stream=f"meeting-{seed}")
        finally:
            wire.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == expected


def test_callers_who_chose_the_same_id_do_not_mix(wire, whole):
    samples, stream = meeting(0.4), "meeting"
    wire.send(stream, samples[: 5 * SECOND], start=True)
    other = wire.refusal(stream, samples, start=True, stream_token="another")
    assert other.startswith("E_OPTION_TOKEN|stream_token: the id meeting belongs to a stream with another")
    wire.send(stream, samples[5 * SECOND :])
    assert wire.send(stream, end=True)["RESULT"][0] == whole(samples)


def test_piece_of_an_unknown_stream_is_refused_by_triton(each_wire):
    assert "must specify the START flag" in each_wire.refusal(new_id(), meeting(0.1))


def test_abandoned_streams_leave_room_and_their_next_piece_is_refused(wire):
    streams = [new_id() for _ in range(8)]
    for stream in streams:
        wire.send(stream, meeting(0.1), start=True)
    begin = monotonic()
    full = wire.refusal(new_id(), meeting(0.1), start=True)
    assert full == "E_OVERLOADED_STREAMS|8 streams are open, as many as there may be; try again"
    assert monotonic() - begin < 1.5  # said at once, not after somebody's idle time

    def has_room():
        try:
            wire.stream_all(meeting(0.1), 1)
        except InferenceServerException as err:
            if "E_OVERLOADED_STREAMS" not in err.message():
                raise
            return False
        return True

    assert 1 < seconds_until(has_room, 15) < 10
    assert "must specify the START flag" in wire.refusal(streams[0], meeting(0.1))


@pytest.mark.parametrize(
    ("samples", "more", "message"),
    [
        pytest.param(np.zeros(9), {}, "FP64", id="doubles"),
        pytest.param(np.zeros((2, 9), np.int16), {}, "shape", id="two-channels"),
        pytest.param(np.full(9, np.inf, np.float32), {}, "E_AUDIO_NONFINITE|", id="infinite"),
        pytest.param(np.zeros(61 * SECOND, np.int16), {}, "E_AUDIO_TOO_LONG|", id="too-long-a-piece"),
        pytest.param(np.zeros(9, np.int16), {"first_sample": 10**6}, "E_OPTION_POSITION|", id="gap"),
        pytest.param(np.zeros(9, np.int16), {"num_speakers": 2}, "E_OPTION_UNKNOWN|", id="late-option"),
    ],
)
def test_bad_piece_is_refused_and_the_stream_goes_on(wire, whole, samples, more, message):
    good, stream = meeting(0.3), new_id()
    wire.send(stream, good[: 5 * SECOND], start=True)
    assert message in wire.refusal(stream, samples, **more)
    wire.send(stream, good[5 * SECOND :])
    assert wire.send(stream, end=True)["RESULT"][0] == whole(good)


def test_piece_that_comes_again_is_answered_as_before(each_wire, whole):
    samples, stream, half = meeting(0.5, seed=3), new_id(), 15 * SECOND
    each_wire.send(stream, samples[:half], start=True, first_sample=0)
    first, again = (
        json.loads(each_wire.send(stream, samples[half:], first_sample=half)["RESULT"][0]) for _ in range(2)
    )
    assert first == again
    assert first["committed"]
    assert each_wire.send(stream, end=True)["RESULT"][0] == whole(samples)


def test_start_and_end_may_come_together(each_wire, whole):
    samples = meeting(0.3)
    assert each_wire.send(new_id(), samples, start=True, end=True)["RESULT"][0] == whole(samples)
    assert each_wire.refusal(new_id(), start=True, end=True).startswith("E_AUDIO_EMPTY|")


def test_plain_json_is_enough(scripted, whole):
    samples, answers = meeting(0.1), []
    for index, piece in enumerate(np.array_split(samples, 2)):
        sequence = {"sequence_id": 99, "sequence_start": index == 0, "sequence_end": index == 1}
        document = {
            "parameters": {"stream_token": "json", **sequence},
            "inputs": [
                {"name": "PCM", "datatype": "INT16", "shape": [len(piece)], "data": piece.tolist()},
            ],
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{scripted.ports[0]}/v2/models/diarize_stream/infer",
            json.dumps(document).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            outputs = {output["name"]: output["data"] for output in json.load(response)["outputs"]}
        answers.append(outputs["RESULT"][0])
    assert json.loads(answers[0])["final"] is False
    assert answers[1].encode() == whole(samples)


def test_end_of_a_long_stream_does_not_hold_up_another(scripted, wire):
    """While an END waits for its last block, pieces of another stream are answered."""
    long, short = new_id(), new_id()
    for index in range(3):
        wire.send(long, meeting(0.9), start=index == 0, **({} if index else {"live": False}))
    wire.send(short, meeting(0.2), start=True)
    own, ended = LiveWire("grpc", scripted), threading.Event()
    thread = threading.Thread(target=lambda: (own.send(long, end=True), ended.set()))
    thread.start()
    answered = 0
    while not ended.is_set():
        wire.send(short, np.zeros(160, np.int16))
        answered += not ended.is_set()
    thread.join()
    own.close()
    wire.send(short, end=True)
    assert answered


def test_two_hundred_short_streams_leave_memory_as_it_was(scripted, wire):
    def used():
        return sum(process.memory_full_info().pss for process in stubs(scripted, "diarize_stream"))

    samples = meeting(0.05)
    for _ in range(30):
        wire.send(new_id(), samples, start=True, end=True, live=False)
    before = used()
    for _ in range(200):
        wire.send(new_id(), samples, start=True, end=True, live=False)
    assert used() - before < 4 << 20


def test_stream_whose_stub_dies_is_lost_with_a_clear_error(scripted, wire, whole):
    stream, samples = new_id(), meeting(0.3)
    wire.send(stream, samples, start=True)
    (stub,) = stubs(scripted, "diarize_stream")
    stub.kill()
    text = wire.refusal(stream, samples)
    assert "is not healthy" in text or "must specify the START flag" in text or "not found" in text.lower()

    def is_back():
        try:
            return wire.stream_all(samples, 2) == whole(samples)
        except InferenceServerException:
            sleep(0.2)
            return False

    seconds_until(is_back, 30)
    assert "must specify the START flag" in wire.refusal(stream, samples)


def test_script_measures_streams_in_real_time(scripted, capsys):
    how = Listening(seconds=2, step=0.5, latency=1)
    url = f"grpc://127.0.0.1:{scripted.ports[1]}"
    assert len(asyncio.run(play_many(url, meeting(0.1), how, 3))) == 12
    assert not holds(url, meeting(0.1), how, 5.0, 9)  # there is room for 8
    assert "E_OVERLOADED_STREAMS" in capsys.readouterr().out


@pytest.mark.parametrize("name", EACH)
def test_whole_block_by_block_and_in_random_pieces_the_bytes_are_the_same(server, grpc, dev, name):
    samples, wire = dev[name], LiveWire("grpc", server)
    whole = grpc.diarize(samples)
    try:
        assert wire.stream_all(samples, random_pieces(len(samples), 7), live=False) == whole
    finally:
        wire.close()
    with DiarizationClient(f"grpc://127.0.0.1:{server.ports[1]}") as client:
        assert client.diarize(samples, mode="blocks").to_json() == whole


def test_live_view_of_a_recording_names_two_speakers(server, speech):
    wire = LiveWire("http", server)
    try:
        stream, turns = new_id(), []
        for index, start in enumerate(range(0, 20 * SECOND, 2 * SECOND)):
            piece = speech[start : start + 2 * SECOND]
            view = json.loads(wire.send(stream, piece, start=index == 0)["RESULT"][0])
            turns += view["committed"]
        wire.send(stream, end=True)
    finally:
        wire.close()
    assert {turn["speaker"] for turn in turns} == {"SPEAKER_00", "SPEAKER_01"}
    assert max(turn["end"] for turn in turns) > 18
