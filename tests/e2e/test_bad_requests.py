"""What must be refused is refused by name, and the next good request works."""

import json

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

INVALID = {"grpc": "StatusCode.INVALID_ARGUMENT", "http": "400"}
PCM, AUDIO = np.zeros(32_000, np.int16), np.zeros(32_000, np.float32)


def with_sample(value):
    audio = AUDIO.copy()
    audio[100] = value
    return {"AUDIO": audio}


def refusal(call, *arguments, **more):
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **more)
    return caught.value.status(), caught.value.message()


@pytest.fixture
def good_request(wire):
    """After the test: a request like any other succeeds."""
    yield
    assert json.loads(wire.diarize(PCM))["turns"] == []


@pytest.mark.usefixtures("good_request")
@pytest.mark.parametrize(
    ("tensors", "parameters", "message"),
    [
        pytest.param({"AUDIO": AUDIO, "PCM": PCM}, {}, "E_AUDIO_INPUTS|got AUDIO and PCM, ", id="both"),
        pytest.param({}, {}, "E_AUDIO_INPUTS|got neither, ", id="neither"),
        pytest.param({"PCM": PCM[:0]}, {}, "E_AUDIO_EMPTY|", id="no-samples"),
        pytest.param(with_sample(np.nan), {}, "E_AUDIO_NONFINITE|", id="nan"),
        pytest.param(with_sample(np.inf), {}, "E_AUDIO_NONFINITE|", id="infinite"),
        pytest.param({"PCM": PCM}, {"speakers": 2}, "E_OPTION_UNKNOWN|got speakers; known: ", id="unknown"),
        pytest.param({"PCM": PCM}, {"num_speakers": "two"}, "E_OPTION_TYPE|", id="wrong-type"),
        pytest.param({"PCM": PCM}, {"num_speakers": 0}, "E_OPTION_COUNT|", id="zero"),
        pytest.param({"PCM": PCM}, {"max_speakers": -1}, "E_OPTION_COUNT|", id="negative"),
        pytest.param(
            {"PCM": PCM}, {"min_speakers": 3, "max_speakers": 2}, "E_OPTION_CONFLICT|", id="min-above-max"
        ),
        pytest.param(
            {"PCM": PCM}, {"num_speakers": 3, "max_speakers": 2}, "E_OPTION_CONFLICT|", id="exact-and-bound"
        ),
    ],
)
def test_bad_request_is_refused_by_name(wire, tensors, parameters, message):
    status, text = refusal(wire.infer, tensors, parameters)
    assert status == INVALID[wire.protocol]
    assert text.startswith(message)
    assert "Traceback" not in text


@pytest.mark.usefixtures("good_request")
@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param({"PCM": PCM.reshape(2, -1)}, id="wrong-rank"),
        pytest.param({"PCM": AUDIO}, id="floats-as-pcm"),
        pytest.param({"AUDIO": AUDIO.astype(np.float64)}, id="doubles"),
    ],
)
def test_wrong_rank_or_type_is_refused_by_the_server(wire, tensors):
    status, _ = refusal(wire.infer, tensors)
    assert status == INVALID[wire.protocol]


@pytest.mark.usefixtures("good_request")
def test_more_speakers_than_there_are_is_a_result_with_a_note(wire, speech):
    counts = json.loads(wire.diarize(speech[7 * 16_000 : 9 * 16_000], num_speakers=5))["num_speakers"]
    assert counts["requested"] == 5
    assert counts["effective"] < 5
    assert counts["note"].startswith(f"found {counts['effective']} of 5 speakers: ")


@pytest.mark.usefixtures("good_request")
@pytest.mark.parametrize("num_samples", [1, 159_999, 160_001, 656_001])
def test_block_of_a_wrong_length_is_refused_naming_the_right_ones(wire, num_samples):
    span = {"SPAN": np.zeros(num_samples, np.float32)}
    status, text = refusal(wire.infer, span, outputs=["LOGITS"], model="diar_nn_g0")
    assert status == INVALID[wire.protocol]
    assert text.startswith(f"E_SPAN_LENGTH|got {num_samples} samples, expected 160000 + (n - 1) * 16000")


def test_block_answers_what_was_asked_for(wire):
    span = {"SPAN": np.zeros(176_000, np.float32)}
    outputs = wire.infer(span, outputs=["LOGITS", "LANES"], model="diar_nn_g0")
    assert outputs["LOGITS"].shape == (2, 589, 7)
    assert all(lane.decode().startswith(("exact", "openvino")) for lane in outputs["LANES"])
