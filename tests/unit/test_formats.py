"""What the command writes, read back by libraries that are not ours: the same times to the millisecond."""

import csv
import io
import json

import numpy as np
import pysubs2
import pytest
import webvtt
from diar_client.formats import FORMATS
from praatio import textgrid
from pyannote.database.util import load_rttm

from diar.options import Options
from diar.result import Diarization, Speaker
from diar.turns import Turn, seconds

NAMES = ["SPEAKER_00", 'Zoë "Z" <b>&{i}', "李 雷"]


def diarization(turns, num_samples=4 * 3600 * 16_000 + 7, names=NAMES, file_id="Team_call/..ü"):
    turns = tuple(sorted(turns))
    return Diarization(
        num_samples=num_samples,
        profile="pyannote_campplus",
        lanes={},
        requested=None,
        note="",
        turns=turns,
        exclusive_turns=turns[:1],
        speakers=tuple(Speaker(name, 16_000, 0.5) for name in names),
        embeddings=np.eye(len(names), 192, dtype=np.float32),
        file_id=file_id,
    )


@pytest.fixture(scope="module")
def result():
    """Overlapping turns of three speakers at times of any fraction, up to 4 hours."""
    rng = np.random.default_rng(0)
    turns = []
    for name in NAMES:
        edges = np.sort(rng.choice(4 * 3600 * 16_000, 40, replace=False))
        turns += [
            Turn(int(a), int(b), name, 0.123)
            for a, b in zip(edges[::2], edges[1::2], strict=True)
            if b - a > 32
        ]
    return diarization(turns)


@pytest.fixture
def write(tmp_path):
    def write(result, name, exclusive=False):
        path = tmp_path / f"out{FORMATS[name].suffix}"
        path.write_bytes(FORMATS[name].render(result, exclusive))
        return str(path)

    return write


def milliseconds(turns):
    return [(round(seconds(t.start) * 1000), round(seconds(t.end) * 1000)) for t in turns]


def test_rttm_is_read_by_pyannote(result, write):
    annotations = load_rttm(write(result, "rttm"))
    assert list(annotations) == ["Team_call/..ü"]
    read = [
        (round(segment.start * 1000), round(segment.end * 1000), label)
        for segment, _, label in annotations["Team_call/..ü"].itertracks(yield_label=True)
    ]
    names = ["_".join(turn.speaker.split()) for turn in result.turns]
    assert sorted(read) == sorted((*t, n) for t, n in zip(milliseconds(result.turns), names, strict=True))


@pytest.mark.parametrize("file_id", ["two words", "Zoë 李 雷", "..", "../x\ty", "a\nSPEAKER b"])
def test_any_file_id_is_one_word_in_rttm(write, file_id):
    turns = [Turn(0, 16_000, NAMES[0])]
    named = diarization(turns, file_id=Options(file_id=file_id).file_id)
    assert list(load_rttm(write(named, "rttm"))) == ["_".join(file_id.split())]


def test_srt_is_read_by_pysubs2(result, write):
    events = pysubs2.load(write(result, "srt"), format_="srt").events
    assert [(event.start, event.end) for event in events] == milliseconds(result.turns)
    assert [event.plaintext for event in events][:3] == [
        turn.speaker.translate(str.maketrans("<>{}", "[]()")) for turn in result.turns[:3]
    ]


def test_vtt_is_read_by_webvtt(result, write):
    captions = webvtt.read(write(result, "vtt")).captions
    assert [(parse(c.start), parse(c.end)) for c in captions] == milliseconds(result.turns)
    names = {turn.speaker for turn in result.turns}
    assert {
        c.voice.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for c in captions
    } == names


def test_textgrid_is_read_by_praatio(result, write):
    grid = textgrid.openTextgrid(write(result, "textgrid"), includeEmptyIntervals=False)
    assert grid.tierNames == tuple(NAMES)
    assert round(grid.maxTimestamp * 1000) == round(seconds(result.num_samples) * 1000)
    for name in NAMES:
        read = [(round(i.start * 1000), round(i.end * 1000)) for i in grid.getTier(name).entries]
        assert read == milliseconds(turn for turn in result.turns if turn.speaker == name)


def test_csv_is_read_by_the_standard_library(result):
    text = FORMATS["csv"].render(result, False).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(round(float(r["start"]) * 1000), round(float(r["end"]) * 1000)) for r in rows] == milliseconds(
        result.turns
    )
    assert [(r["file"], r["speaker"], r["confidence"]) for r in rows] == [
        ("Team_call/..ü", turn.speaker, "0.123") for turn in result.turns
    ]


def test_json_is_the_result_document(result):
    assert FORMATS["json"].render(result, True) == result.to_json()
    assert len(json.loads(result.to_json())["turns"]) == len(result.turns)


@pytest.mark.parametrize("name", ["rttm", "srt", "vtt", "csv", "textgrid"])
def test_exclusive_turns_can_be_asked_for(result, name):
    assert FORMATS[name].render(result, True) != FORMATS[name].render(result, False)


@pytest.mark.parametrize("num_samples", [1, 16_000])
def test_recording_without_speech_is_a_file_that_can_be_read(write, num_samples):
    nothing = diarization([], num_samples, names=[])
    assert load_rttm(write(nothing, "rttm")) == {}
    assert pysubs2.load(write(nothing, "srt"), format_="srt").events == []
    assert webvtt.read(write(nothing, "vtt")).captions == []
    grid = textgrid.openTextgrid(write(nothing, "textgrid"), includeEmptyIntervals=False)
    assert [grid.getTier(name).entries for name in grid.tierNames] == [()]
    assert FORMATS["csv"].render(nothing, False) == b"file,start,end,speaker,confidence\n"


def test_annotation_and_data_frame_hold_the_same_turns(result):
    annotation = result.to_annotation()
    assert annotation.uri == "Team_call/..ü"
    assert [label for _, _, label in annotation.itertracks(yield_label=True)] == [
        turn.speaker for turn in result.turns
    ]
    frame = result.to_dataframe()
    assert list(frame.columns) == ["start", "end", "speaker", "confidence"]
    assert frame["start"].tolist() == [seconds(turn.start) for turn in result.turns]
    assert diarization([]).to_dataframe().shape == (0, 4)


def parse(text):
    hours, minutes, rest = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + round(float(rest) * 1000)
