import asyncio
import json
import time

import numpy as np
import pytest
import triton_python_backend_utils as pb_utils
from scripted import scripted_nets
from stream_requests import (
    SPEECH,
    WAIT_S,
    answer,
    answers,
    chunk,
    error,
    meeting,
    output,
    pcm,
    result,
    stream_all,
    whole,
)

from diar.board import Board
from diar.profile import load_profile


def test_end_answers_with_the_bytes_of_diarize(model, profile):
    samples = meeting(70)
    assert stream_all(model, 7, samples, 23) == whole(samples, profile)


def test_live_answer_has_the_view_and_no_more(model):
    answer(model, 7, start=True, PCM=pcm(12))
    response = answer(model, 7, PCM=pcm(3))
    view = json.loads(result(response))
    assert (view["final"], view["position"]) == (False, 15.0)
    assert view["committed"][0]["speaker"] == "SPEAKER_00"
    assert view["committed"][-1]["end"] == pytest.approx(15.0 - view["latency"], abs=1e-3)
    assert output(response, "RTTM")[0] == b""
    assert output(response, "EMBEDDINGS").shape == (0, 192)


def test_end_answers_with_rttm_and_embeddings(model):
    response = answer(model, 7, start=True, end=True, wishes={"file_id": "x", "timings": True}, PCM=pcm(20))
    assert output(response, "RTTM")[0].startswith(b"SPEAKER x 1 0.000 20.000 ")
    assert output(response, "EMBEDDINGS").shape == (1, 192)
    assert set(json.loads(result(response))["timings"]) == {"blocks", "clustering", "stitching", "total"}


def test_streams_that_are_mixed_end_as_those_after_each_other(model, profile):
    samples = {stream: meeting(45, seed) for seed, stream in enumerate((1, 2, "three", 4))}
    pieces = {stream: np.array_split(samples[stream], 9) for stream in samples}
    requests = [
        chunk(stream, start=index == 0, token=str(stream), PCM=pieces[stream][index])
        for index in range(9)
        for stream in samples
    ]
    answers(model, *requests)
    ends = answers(model, *(chunk(stream, end=True, token=str(stream)) for stream in samples))
    assert [result(end) for end in ends] == [whole(samples[stream], profile) for stream in samples]


def test_requests_of_a_stream_keep_their_order(model, profile):
    samples = meeting(40)
    requests = [
        chunk(7, start=index == 0, PCM=part) for index, part in enumerate(np.array_split(samples, 40))
    ]
    *_, end = answers(model, *requests, chunk(7, end=True))
    assert result(end) == whole(samples, profile)


def test_start_with_other_options_than_known_starts_nothing(model):
    refused = answer(model, 7, start=True, wishes={"colour": "red"}, PCM=pcm(1))
    assert error(refused)[1].startswith("E_OPTION_UNKNOWN|got colour")
    assert error(answer(model, 7, PCM=pcm(1)))[1].startswith("E_STREAM_UNKNOWN|no stream 7 here")


def test_options_belong_to_the_start(model):
    answer(model, 7, start=True, PCM=pcm(1))
    late = answer(model, 7, wishes={"latency": 2.0}, PCM=pcm(1))
    assert error(late) == (
        pb_utils.TritonError.INVALID_ARG,
        "E_OPTION_UNKNOWN|got latency, expected such options with a START only",
    )


@pytest.mark.parametrize(
    ("more", "word"),
    [
        pytest.param({"PCM": pcm(1), "AUDIO": np.zeros(9, np.float32)}, "E_AUDIO_INPUTS", id="both"),
        pytest.param({"AUDIO": np.full(9, np.nan, np.float32)}, "E_AUDIO_NONFINITE", id="nan"),
        pytest.param({"PCM": pcm(61)}, "E_AUDIO_TOO_LONG", id="too-long-a-piece"),
        pytest.param({"PCM": pcm(1), "token": None}, "E_OPTION_TOKEN", id="no-token"),
        pytest.param({"PCM": pcm(1), "token": "you"}, "E_OPTION_TOKEN", id="another-token"),
        pytest.param({"PCM": pcm(1), "wishes": {"first_sample": 99}}, "E_OPTION_POSITION", id="a-gap"),
    ],
)
def test_bad_piece_is_refused_and_the_stream_goes_on(model, profile, more, word):
    assert "final" in json.loads(result(answer(model, 7, start=True)))
    code, message = error(answer(model, 7, **more))
    assert (code, message.split("|")[0]) == (pb_utils.TritonError.INVALID_ARG, word)
    answer(model, 7, PCM=pcm(20))
    assert result(answer(model, 7, end=True)) == whole(pcm(20), profile)


def test_stream_without_sound_ends_with_a_named_error(model):
    answer(model, 7, start=True)
    assert error(answer(model, 7, end=True))[1].startswith("E_AUDIO_EMPTY|")


def test_more_streams_than_allowed_are_told_so(start_model, nets):
    model = start_model(max_streams=2)
    for stream in (1, 2):
        result(answer(model, stream, start=True, PCM=pcm(1)))
    assert error(answer(model, 3, start=True, PCM=pcm(1))) == (
        pb_utils.TritonError.UNAVAILABLE,
        "E_OVERLOADED_STREAMS|2 streams are open, as many as there may be; try again",
    )
    answer(model, 1, end=True)
    result(answer(model, 3, start=True, PCM=pcm(1)))


def test_abandoned_stream_is_swept_away(start_model, nets):
    model = start_model(idle_s=1, max_streams=1)
    answer(model, 7, start=True, PCM=pcm(12))
    deadline = time.monotonic() + WAIT_S
    while answer(model, 8, start=True, PCM=pcm(1)).has_error():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert error(answer(model, 7, PCM=pcm(1)))[1].startswith("E_STREAM_UNKNOWN|")


def test_server_that_stops_begins_no_streams_and_ends_those_there_are(
    start_model, nets, profile, tmp_path, monkeypatch
):
    board = Board.create(tmp_path, log_json=False)
    monkeypatch.chdir(tmp_path)
    model = start_model()
    answer(model, 7, start=True, PCM=pcm(12))
    board.drain()
    assert error(answer(model, 8, start=True, PCM=pcm(1)))[1].startswith("E_OVERLOADED_DRAINING|")
    assert result(answer(model, 7, end=True)) == whole(pcm(12), profile)
    assert not board.at_work("diarize_stream")


def test_slow_stream_does_not_hold_up_another(start_model, profile, triton):
    scripted, slow = scripted_nets(profile), asyncio.Event()

    async def answer_slowly(request):
        span = pb_utils.get_input_tensor_by_name(request, "SPAN").as_numpy()
        if span.max() > 0.15:  # the second local speaker
            await slow.wait()
        return await scripted(request)

    triton._callees["diar_nn_g0"] = answer_slowly
    model = start_model()
    held = chunk(1, start=True, PCM=pcm(12, value=2 * SPEECH))
    model.execute([held])
    result(answer(model, 2, start=True, PCM=pcm(1)))
    assert not held._sender._done.is_set()
    model._loop._loop.call_soon_threadsafe(slow.set)
    assert held._sender._done.wait(WAIT_S)


@pytest.mark.parametrize(
    ("name", "one_in_full"),
    [
        pytest.param("pyannote_campplus", True, id="span"),
        pytest.param("pyannote_campplus_two_tier", False, id="two_tier"),
    ],
)
def test_few_windows_are_asked_for_pure_embeddings_alone_where_there_are_any(
    start_model, triton, name, one_in_full
):
    profile, asked = load_profile(name), []
    scripted = scripted_nets(profile)

    async def note(request):
        length = len(pb_utils.get_input_tensor_by_name(request, "SPAN").as_numpy())
        asked.append((length, "EMBEDDINGS" in request.requested_output_names()))
        return await scripted(request)

    triton._callees["diar_nn_g0"] = note
    model = start_model(profile=name)
    answer(model, 7, start=True, PCM=pcm(1))
    answer(model, 7, PCM=pcm(19))
    answer(model, 7, end=True)
    one, many, block = (profile.geometry.span_samples(count) for count in (1, 19, 11))
    assert asked == [(one, one_in_full), (many, True), (block, True)]


def test_figures_are_kept(model, triton):
    answer(model, 7, start=True, PCM=pcm(12))
    answer(model, 8, start=True, PCM=pcm(12))
    answer(model, 7, end=True)
    figures = {name: metric.value() for (name, _), metric in triton.MetricFamily._all.items()}
    assert figures["diar_streams_open"] == 1
    assert figures["diar_recordings_total"] == 1
    assert figures["diar_audio_seconds_total"] == 12
