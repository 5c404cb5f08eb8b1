"""Pieces, starts and ends that come again, and streams of one name."""

import json

import pytest
import triton_python_backend_utils as pb_utils
from scripted import scripted_nets
from stream_requests import SECOND, SPEECH, answer, answers, chunk, error, meeting, pcm, result, whole

from diar.errors import Overloaded


def test_two_callers_of_the_same_id_do_not_mix(model, profile):
    answer(model, 7, start=True, token="me", PCM=pcm(15))
    other = answer(model, 7, start=True, token="you", PCM=pcm(9, value=2 * SPEECH))
    assert error(other)[1].startswith("E_OPTION_TOKEN|stream_token: the id 7 belongs to a stream with")
    assert result(answer(model, 7, end=True, token="me")) == whole(pcm(15), profile)


def test_start_of_the_same_caller_begins_anew(model, profile):
    answer(model, 7, start=True, PCM=pcm(15))
    answer(model, 7, start=True, PCM=pcm(12))
    assert result(answer(model, 7, end=True)) == whole(pcm(12), profile)


def test_piece_that_comes_again_counts_once(model, profile):
    samples = meeting(40)
    answer(model, 7, start=True, wishes={"first_sample": 0}, PCM=samples[: 30 * SECOND])
    again = answer(model, 7, wishes={"first_sample": 20 * SECOND}, PCM=samples[20 * SECOND :])
    assert json.loads(result(again))["position"] == 40.0
    assert result(answer(model, 7, end=True)) == whole(samples, profile)


def test_answer_to_a_piece_that_comes_again_has_what_the_lost_one_had(model):
    def send(start_s, end_s, begins=False):
        piece, wishes = samples[start_s * SECOND : end_s * SECOND], {"first_sample": start_s * SECOND}
        return json.loads(result(answer(model, 7, start=begins, wishes=wishes, PCM=piece)))

    samples = pcm(30)
    seen = send(0, 12, begins=True)["committed"]
    lost = send(12, 20)["committed"]
    again = send(12, 20)["committed"]
    assert again == lost != []
    further = send(12, 25)
    assert further["committed"][: len(lost)] == lost
    seen += further["committed"]
    edges = [(turn["start"], turn["end"]) for turn in seen]
    assert [start for start, _ in edges[1:]] == [end for _, end in edges[:-1]]
    assert edges[-1][1] == pytest.approx(25 - further["latency"], abs=2e-3)
    assert send(25, 30)["committed"][0]["start"] == edges[-1][1]


def test_start_further_on_goes_on_with_what_is_there(model, profile):
    samples = meeting(40)
    answer(model, 7, start=True, PCM=samples[: 30 * SECOND])
    answer(model, 7, start=True, wishes={"first_sample": 30 * SECOND}, PCM=samples[30 * SECOND :])
    assert result(answer(model, 7, end=True)) == whole(samples, profile)
    unknown = answer(model, 8, start=True, wishes={"first_sample": 30 * SECOND}, PCM=samples)
    assert error(unknown)[1].startswith("E_STREAM_UNKNOWN|")


def test_end_whose_answer_was_lost_can_be_asked_for_again(model):
    answer(model, 7, start=True, PCM=pcm(12))
    end = result(answer(model, 7, end=True))
    again = {"start": True, "end": True, "wishes": {"first_sample": 12 * SECOND}}
    assert result(answer(model, 7, **again)) == end
    assert error(answer(model, 7, **again, token="you"))[1].startswith("E_STREAM_UNKNOWN|")


def test_end_that_is_asked_for_again_before_it_is_answered_is_answered_twice(model, profile):
    answer(model, 7, start=True, PCM=pcm(12))
    first = chunk(7, end=True)
    second = chunk(7, start=True, end=True, wishes={"first_sample": 12 * SECOND})
    assert [result(each) for each in answers(model, first, second)] == [whole(pcm(12), profile)] * 2


def test_stream_of_the_same_name_has_a_result_of_its_own(model, profile):
    for seconds in (12, 15):
        answer(model, 7, start=True, PCM=pcm(seconds))
        assert result(answer(model, 7, end=True)) == whole(pcm(seconds), profile)


def test_end_that_failed_can_be_asked_for_again(model, profile, triton, nets):
    answer(model, 7, start=True, PCM=pcm(12))

    def fail():
        raise Overloaded("E_OVERLOADED_MEMORY", "try again")

    triton._callees["diar_nn_g0"] = scripted_nets(profile, fail)
    refused = answer(model, 7, end=True)
    assert error(refused) == (pb_utils.TritonError.UNAVAILABLE, "E_OVERLOADED_MEMORY|try again")
    triton._callees["diar_nn_g0"] = nets
    again = {"start": True, "end": True, "wishes": {"first_sample": 12 * SECOND}}
    assert result(answer(model, 7, **again)) == whole(pcm(12), profile)
