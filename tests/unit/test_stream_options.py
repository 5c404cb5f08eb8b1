import pytest

from diar.errors import InvalidOption
from diar.options import Options
from diar.stream_options import ChunkOptions, StreamOptions


def test_start_takes_the_options_of_diarize_too():
    wishes = {"latency": 2, "step": 0.25, "live": False, "max_speakers": 4, "file_id": "a b"}
    options = StreamOptions.from_parameters(wishes)
    assert options == StreamOptions(False, 2.0, 0.25, Options(max_speakers=4, file_id="a_b"))


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        pytest.param({"latency": 0.4}, "E_OPTION_RANGE|latency: got 0.4 s, expected 0.5 to 5 s", id="soon"),
        pytest.param({"latency": 6}, "E_OPTION_RANGE|latency: got 6 s", id="late"),
        pytest.param({"latency": float("nan")}, "E_OPTION_RANGE|latency: got nan", id="nan"),
        pytest.param({"latency": "1"}, "E_OPTION_TYPE|latency: got '1', expected seconds", id="text"),
        pytest.param({"latency": True}, "E_OPTION_TYPE|latency: got True", id="true"),
        pytest.param({"step": 0.01}, "E_OPTION_RANGE|step: got 0.01 s", id="step"),
        pytest.param({"latency": 1, "step": 2}, "E_OPTION_CONFLICT|got step 2 > latency 1", id="long-step"),
        pytest.param({"live": 1}, "E_OPTION_TYPE|live: got 1, expected true or false", id="live"),
        pytest.param({"colour": "red"}, "E_OPTION_UNKNOWN|got colour", id="unknown"),
        pytest.param({"num_speakers": 0}, "E_OPTION_COUNT|", id="count"),
    ],
)
def test_bad_wish_is_refused_by_name(wishes, message):
    with pytest.raises(InvalidOption) as caught:
        StreamOptions.from_parameters(wishes)
    assert str(caught.value).startswith(message)


def test_parameters_of_a_piece_are_taken_out():
    parameters = {"stream_token": "me", "first_sample": 7, "latency": 1}
    assert ChunkOptions.take_from(parameters) == ChunkOptions("me", 7)
    assert parameters == {"latency": 1}


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        pytest.param({}, "E_OPTION_TOKEN", id="no-token"),
        pytest.param({"stream_token": ""}, "E_OPTION_TOKEN", id="empty-token"),
        pytest.param({"stream_token": 7}, "E_OPTION_TOKEN", id="number"),
        pytest.param({"stream_token": "x" * 201}, "E_OPTION_TOKEN", id="long-token"),
        pytest.param({"stream_token": "x", "first_sample": -1}, "E_OPTION_TYPE", id="negative"),
        pytest.param({"stream_token": "x", "first_sample": True}, "E_OPTION_TYPE", id="true"),
        pytest.param({"stream_token": "x", "first_sample": 1.5}, "E_OPTION_TYPE", id="fraction"),
    ],
)
def test_bad_parameters_of_a_piece_are_refused_by_name(parameters, word):
    with pytest.raises(InvalidOption) as caught:
        ChunkOptions.take_from(parameters)
    assert caught.value.word == word
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("first", "taken", "known"), [(None, 50, 0), (50, 50, 0), (40, 50, 10), (0, 50, 30), (20, 50, 30)]
)
def test_samples_that_came_before_are_known(first, taken, known):
    assert ChunkOptions("x", first).num_known(30, taken) == known


def test_missing_samples_are_named():
    with pytest.raises(InvalidOption, match=r"E_OPTION_POSITION\|first_sample: got 51, expected at most 50"):
        ChunkOptions("x", 51).num_known(30, 50)
