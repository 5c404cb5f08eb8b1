"""The RESULT document: its keys, its bytes, and reading it back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from diar.result import Diarization, Speaker
from diar.turns import Turn

RESULT = Diarization(
    num_samples=160_007,
    profile="pyannote_campplus",
    lanes={"segmentation": "exact", "embedding": "openvino:fp32"},
    requested={"min": 2, "max": None},
    note="",
    turns=(Turn(495, 52_335, "SPEAKER_00", 0.98765), Turn(40_000, 160_007, "SPEAKER_01", 0.5)),
    exclusive_turns=(Turn(495, 45_000, "SPEAKER_00", 1.0), Turn(45_000, 160_007, "SPEAKER_01", 0.25)),
    speakers=(Speaker("SPEAKER_00", 51_840, 0.98765), Speaker("SPEAKER_01", 120_007, 0.12345)),
    embeddings=np.eye(2, 192, dtype=np.float32),
    file_id="call",
)
EMPTY = replace(
    RESULT,
    requested=None,
    turns=(),
    exclusive_turns=(),
    speakers=(),
    embeddings=np.zeros((0, 192), np.float32),
)


def test_the_document_is_that_of_the_design():
    document = json.loads(RESULT.to_json())
    assert list(document) == [
        "schema",
        "duration",
        "profile",
        "lanes",
        "num_speakers",
        "turns",
        "exclusive_turns",
        "speakers",
    ]
    assert document["schema"] == 1
    assert document["duration"] == 10.0
    assert document["num_speakers"] == {"requested": {"min": 2, "max": None}, "effective": 2, "note": ""}
    assert document["turns"][0] == {
        "start": 0.031,
        "end": 3.271,
        "speaker": "SPEAKER_00",
        "confidence": 0.988,
    }
    assert document["speakers"][1] == {"label": "SPEAKER_01", "speech": 7.5, "confidence": 0.123}


def test_times_end_no_later_than_the_duration():
    document = json.loads(RESULT.to_json())
    assert max(turn["end"] for turn in document["turns"]) == document["duration"]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(RESULT, id="two-speakers"),
        pytest.param(EMPTY, id="no-speech"),
        pytest.param(replace(RESULT, requested=2, note="found 1 of 2 speakers"), id="exact-wish"),
        pytest.param(replace(RESULT, timings={"total": 1.23456, "blocks": 0.0}), id="timings"),
        pytest.param(replace(EMPTY, num_samples=1), id="one-sample"),
    ],
)
def test_reading_back_gives_the_same_bytes(result):
    text = result.to_json()
    again = Diarization.from_json(text, result.embeddings, result.file_id)
    assert again.to_json() == text
    assert again.to_rttm() == result.to_rttm()
    assert again.to_rttm(exclusive=True) == result.to_rttm(exclusive=True)
    assert again.embeddings is result.embeddings


def test_timings_are_there_only_if_asked_for():
    assert "timings" not in RESULT.document()
    assert list(replace(RESULT, timings={"total": 1.23456}).document())[-1] == "timings"
    assert replace(RESULT, timings={"total": 1.23456}).document()["timings"] == {"total": 1.235}


def test_rttm_is_that_of_the_turns_asked_for():
    assert RESULT.to_rttm().splitlines()[0].split()[1:5] == ["call", "1", "0.031", "3.240"]
    assert RESULT.to_rttm(exclusive=True).splitlines()[0].split()[3:5] == ["0.031", "2.781"]


@pytest.mark.parametrize("text", [b'{"schema": 2}', b"{}"])
def test_another_schema_is_refused(text):
    with pytest.raises(ValueError, match=r"got RESULT schema .*, expected 1"):
        Diarization.from_json(text, RESULT.embeddings)
