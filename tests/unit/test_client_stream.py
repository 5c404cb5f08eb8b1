"""Streams against the stand-in."""

import asyncio
import time

import numpy as np
import pytest
from diar_client import AsyncDiarizationClient, DiarizationClient, ServerRefused
from kserve_stand_in import Refusal
from scripted_server import QUICK

from diar.errors import (
    Cancelled,
    InvalidAudio,
    InvalidOption,
    NetsUnavailable,
    Overloaded,
    StreamExpired,
)

CHANGING = ("sequence_start", "sequence_end", "first_sample")


def pieces(samples, length):
    return [samples[start : start + length] for start in range(0, len(samples), length)]


def sent(server):
    """(start, end, first_sample) of each request to the stream model."""
    calls = [call.parameters for call in server.calls if call.model == "diarize_stream"]
    return [tuple(parameters[name] for name in CHANGING) for parameters in calls]


def assert_seamless(turns, end):
    """The turns cover everything up to ``end``, none twice (times are to the millisecond)."""
    edges = np.array([(turn.start, turn.end) for turn in turns])
    assert np.abs(edges[1:, 0] - edges[:-1, 1]).max() <= 16
    assert (edges[0, 0], edges[-1, 1]) == (0, pytest.approx(end, abs=16))


def test_stream_ends_with_the_bytes_of_the_whole_recording(client, speech):
    with client.stream(file_id="a b") as stream:
        updates = list(stream.updates(pieces(speech, 100_001)))
    assert stream.result.to_json() == client.diarize(speech, file_id="a b", mode="server").to_json()
    assert stream.result.num_samples == stream.num_samples == len(speech)
    assert stream.result.file_id == "a_b"
    assert updates[-1].num_samples == pytest.approx(len(speech), abs=8)


def test_updates_carry_turns_in_samples(client):
    with client.stream() as stream:
        first, second = stream.push(np.zeros(32_000, np.int16)), stream.push(np.zeros(16_000))
    assert [(t.start, t.end, t.speaker) for t in first.committed] == [(0, 16_000, "SPEAKER_00")]
    assert [(t.start, t.end) for t in first.tentative] == [(16_000, 32_000)]
    assert [(t.start, t.end) for t in second.committed] == [(16_000, 32_000)]
    assert (second.num_samples, second.latency) == (48_000, 16_000)


def test_requests_carry_token_position_and_options_once(server, client):
    with client.stream(latency=2.5, max_speakers=3) as stream:
        stream.push(np.zeros(1000, np.int16))
        stream.push(np.zeros(500, np.float32))
    assert sent(server) == [(True, False, 0), (False, False, 1000), (False, True, 1500)]
    start, middle, end = (call.parameters for call in server.calls)
    assert (start["latency"], start["max_speakers"], start["file_id"]) == (2.5, 3, "recording")
    for later in (middle, end):
        assert {**start, **later} == {**start, **{name: later[name] for name in CHANGING}}
        assert later.keys() == {"sequence_id", "stream_token", *CHANGING}
    assert 0 < start["sequence_id"] < 2**63
    assert len(start["stream_token"]) > 16


def test_streams_have_ids_of_their_own(server, client):
    streams = [client.stream() for _ in range(3)]
    for stream in streams:
        stream.push(np.zeros(1000, np.int16))
    assert len({call.parameters["sequence_id"] for call in server.calls}) == 3


def test_long_piece_is_cut_and_its_turns_are_joined(server, client):
    with client.stream() as stream:
        update = stream.push(np.zeros(16_000 * 45, np.int16))
    assert [len(call.inputs["PCM"]) for call in server.calls[:3]] == [320_000, 320_000, 80_000]
    assert [(t.start, t.end) for t in update.committed][-1] == (624_000, 704_000)
    assert update.committed[0].start == 0


def test_empty_piece_sends_nothing(server, client):
    stream = client.stream()
    assert stream.push([]).committed == ()
    assert server.calls == []


def test_failed_requests_are_sent_again_and_count_once(server, client, speech):
    answer, number = server.models["diarize_stream"], iter(range(1000))

    def sometimes(call):
        """Every third request gets no answer: every other one of those has been taken all the same."""
        count = next(number)
        if count % 3 or call.parameters["sequence_end"]:
            return answer(call)
        if count % 2:
            answer(call)
        raise Refusal("UNAVAILABLE", "E_NETS_UNAVAILABLE|away")

    server.models["diarize_stream"] = sometimes
    with client.stream() as stream:
        turns = [turn for piece in pieces(speech, 70_000) for turn in stream.push(piece).committed]
    assert stream.result.to_json() == client.diarize(speech, mode="server").to_json()
    assert_seamless(turns, len(speech) - 16_000)


@pytest.mark.parametrize("taken", [True, False])
def test_piece_that_could_not_be_sent_goes_before_the_next_one(server, client, speech, taken):
    answer, microphone = server.models["diarize_stream"], speech.copy()
    down = iter([False] + (1 + QUICK.retries) * [True])

    def fail_for_a_while(call):
        fails = next(down, False)
        if taken or not fails:
            answered = answer(call)
        if fails:
            raise Refusal("UNAVAILABLE", "E_NETS_UNAVAILABLE|away")
        return answered

    server.models["diarize_stream"] = fail_for_a_while
    with client.stream() as stream:
        first, second, *others = pieces(microphone, 300_000)
        turns = list(stream.push(first).committed)
        with pytest.raises(NetsUnavailable):
            stream.push(second)
        second[:] = 0  # a caller may use its buffer again
        turns += [turn for piece in others for turn in stream.push(piece).committed]
    assert stream.result.to_json() == client.diarize(speech, mode="server").to_json()
    assert_seamless(turns, len(speech) - 16_000)


def test_piece_that_is_never_answered_is_sent_again(server, client, speech, monkeypatch):
    monkeypatch.setattr("diar_client.stream.ANSWER_S", 0.3)
    answer, silent = server.models["diarize_stream"], iter([False, True, False, False])

    def now_and_then(call):
        answered = answer(call)
        if next(silent, False):
            time.sleep(1.0)
        return answered

    server.models["diarize_stream"] = now_and_then
    with client.stream() as stream:
        turns = [turn for piece in pieces(speech, 300_000) for turn in stream.push(piece).committed]
    assert stream.result.to_json() == client.diarize(speech, mode="server").to_json()
    assert_seamless(turns, len(speech) - 16_000)


def test_time_out_of_a_piece_is_the_callers(server, url, speech):
    server.models["diarize_stream"] = lambda call: time.sleep(1.0)
    with DiarizationClient(url, timeout_s=0.1, patience=QUICK) as client, pytest.raises(Cancelled):
        client.stream().push(speech[:1000])
    assert len(server.calls) == 1


def test_refused_start_is_not_kept(server, client, speech):
    stream, answer = client.stream(), server.models["diarize_stream"]

    def refuse(call):
        raise Refusal("INVALID_ARGUMENT", "E_OPTION_RANGE|latency: got 9 s")

    server.models["diarize_stream"] = refuse
    with pytest.raises(InvalidOption):
        stream.push(speech)
    server.models["diarize_stream"] = answer
    stream.push(speech[:1000])
    assert stream.num_samples == 1000


def test_end_that_failed_goes_on_with_a_start(server, client, speech):
    answer = server.models["diarize_stream"]
    failures = iter([True])

    def end_is_lost(call):
        if call.parameters["sequence_end"] and next(failures, False):
            answer.__self__._sequences.discard(call.parameters["sequence_id"])  # as Triton does with an END
            raise Refusal("UNAVAILABLE", "E_NETS_UNAVAILABLE|away")
        return answer(call)

    server.models["diarize_stream"] = end_is_lost
    with client.stream() as stream:
        stream.push(speech)
    assert stream.result.to_json() == client.diarize(speech, mode="server").to_json()
    assert sent(server)[-2:] == [(False, True, len(speech)), (True, True, len(speech))]


def test_stream_that_the_server_gave_up_is_expired(server, client):
    stream = client.stream()
    stream.push(np.zeros(1000, np.int16))
    model = server.models["diarize_stream"].__self__
    model._sequences.clear()
    model._streams.clear()
    with pytest.raises(StreamExpired):
        stream.push(np.zeros(1000, np.int16))


def test_too_many_streams_is_overloaded(server, client):
    def full(call):
        raise Refusal("UNAVAILABLE", "E_OVERLOADED_STREAMS|16 streams are open")

    server.models["diarize_stream"] = full
    with pytest.raises(Overloaded):
        client.stream().push(np.zeros(1000, np.int16))
    assert len(server.calls) == 4


def test_answer_of_another_kind_is_refused(server, client):
    server.models["diarize_stream"] = lambda call: {
        "RESULT": np.array([b'{"schema":2}'], dtype=np.object_),
        "EMBEDDINGS": np.zeros((0, 192), np.float32),
    }
    with pytest.raises(ServerRefused, match="E_SERVER_RESULT"):
        client.stream().push(np.zeros(1000, np.int16))


def test_bad_samples_are_refused_here(server, client):
    with pytest.raises(InvalidAudio, match="E_AUDIO_SHAPE"):
        client.stream().push(np.zeros((2, 10), np.int16))
    assert server.calls == []


def test_error_inside_does_not_end_the_recording(server, client):
    def microphone():
        yield np.zeros(1000, np.int16)
        raise RuntimeError("unplugged")

    with pytest.raises(RuntimeError, match="unplugged"), client.stream() as stream:
        list(stream.updates(microphone()))
    assert len(server.calls) == 1
    with pytest.raises(InvalidOption):
        _ = stream.result


def test_finished_stream_takes_no_more(client):
    stream = client.stream()
    stream.push(np.zeros(1000, np.int16))
    assert stream.finish() is stream.finish()
    with pytest.raises(InvalidOption):
        stream.push(np.zeros(1000, np.int16))


def test_stream_and_recordings_for_asyncio(url, speech):
    async def run():
        async with AsyncDiarizationClient(url, timeout_s=30, patience=QUICK) as client:
            async with client.stream() as stream:
                await stream.push(speech)
            run = await client.blocks(speech)
            seen = [block.done async for block in run]
            wholes = await asyncio.gather(
                *(client.diarize(speech, mode=mode) for mode in ("server", "blocks"))
            )
            return seen, {r.to_json() for r in (stream.result, await run.result(), *wholes)}

    seen, results = asyncio.run(run())
    assert seen == [1, 2, 3]
    assert len(results) == 1
