"""Recordings of every length and of strange content: a result, and the right one."""

import json

import numpy as np
import pytest

RATE, WINDOW, BLOCK = 16_000, 160_000, 656_000


def check(result, num_samples):
    """The document is well formed: everything inside the recording, nothing that is no number."""
    assert result["duration"] == round(num_samples / RATE, 3)
    for turn in result["turns"] + result["exclusive_turns"]:
        assert 0 <= turn["start"] < turn["end"] <= result["duration"]
        assert 0 <= turn["confidence"] <= 1
    for earlier, later in zip(result["exclusive_turns"], result["exclusive_turns"][1:], strict=False):
        assert earlier["end"] <= later["start"]


def diarize(grpc, samples):
    result = json.loads(grpc.diarize(samples))
    check(result, len(samples))
    return result


def speech_s(result):
    return sum(speaker["speech"] for speaker in result["speakers"])


@pytest.fixture(scope="module")
def clean(grpc, speech):
    return diarize(grpc, speech)


@pytest.mark.parametrize(
    "num_samples",
    [
        pytest.param(1, id="1-sample"),
        pytest.param(160, id="10-ms"),
        pytest.param(RATE // 2, id="half-a-second"),
        pytest.param(4 * RATE, id="4-s"),
        pytest.param(99 * RATE // 10, id="9.9-s"),
        pytest.param(WINDOW - 1, id="window-less-one"),
        pytest.param(WINDOW, id="window"),
        pytest.param(WINDOW + 1, id="window-and-one"),
        pytest.param(BLOCK - 1, id="block-less-one"),
        pytest.param(BLOCK, id="block"),
        pytest.param(BLOCK + 1, id="block-and-one"),
    ],
)
def test_speech_of_any_length_is_a_success(grpc, speech, num_samples):
    talking = np.tile(speech[7 * RATE :], 2)  # it begins to speak in the seventh second
    result = diarize(grpc, talking[:num_samples])
    assert bool(result["turns"]) == (num_samples >= 4 * RATE) or num_samples == RATE // 2


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(np.zeros(20 * RATE, np.float32), id="silence"),
        pytest.param(np.full(20 * RATE, 0.3, np.float32), id="dc"),
        pytest.param(np.random.default_rng(1).normal(0, 0.1, 20 * RATE).astype(np.float32), id="white-noise"),
        pytest.param(
            np.random.default_rng(2).normal(0, 0.001, 20 * RATE).astype(np.float32), id="quiet-noise"
        ),
    ],
)
def test_signal_without_speech_has_no_turns(grpc, samples):
    result = diarize(grpc, samples)
    assert (result["turns"], result["speakers"], result["num_speakers"]["effective"]) == ([], [], 0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda audio: audio / np.abs(audio).max() * 10 ** (-40 / 20), id="-40-dBFS-peak"),
        pytest.param(lambda audio: (audio * 20).clip(-1, 1), id="clipped"),
        pytest.param(lambda audio: audio + 0.2, id="dc-offset"),
    ],
)
def test_changed_speech_keeps_its_speakers_and_most_of_its_seconds(grpc, speech, clean, change):
    audio = speech.astype(np.float32) / 32768
    result = diarize(grpc, change(audio).astype(np.float32))
    assert result["num_speakers"]["effective"] == clean["num_speakers"]["effective"]
    assert speech_s(result) >= 0.9 * speech_s(clean)


@pytest.mark.parametrize(
    ("seconds", "at"),
    [pytest.param(2.0, 58.0, id="last-2-s-of-a-minute"), pytest.param(0.5, 0.0, id="first-half-second")],
)
def test_speech_at_an_edge_is_found(grpc, speech, seconds, at):
    minute = np.zeros(60 * RATE, np.int16)
    start, length = int(at * RATE), int(seconds * RATE)
    minute[start : start + length] = speech[8 * RATE : 8 * RATE + length]
    result = diarize(grpc, minute)
    assert result["turns"]
    for turn in result["turns"]:
        assert at - 0.25 <= turn["start"]
        assert turn["end"] <= at + seconds + 0.25
