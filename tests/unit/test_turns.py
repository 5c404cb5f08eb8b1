"""Turns and their RTTM, read back by pyannote.database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diar.profile import SAMPLE_RATE
from diar.turns import Turn, seconds, speaker_label, to_rttm

load_rttm = pytest.importorskip("pyannote.database.util").load_rttm

TURNS = [
    Turn(0, 24_007, "SPEAKER_00"),
    Turn(8_000, 9_999, "SPEAKER_01"),  # overlaps
    Turn(30_001, 30_017, "SPEAKER_00"),
    Turn(576_000_000, 576_000_270, "SPEAKER_11"),  # after ten hours
]


def test_pyannote_reads_back_what_was_written(tmp_path):
    path = tmp_path / "a.rttm"
    path.write_text(to_rttm(TURNS, "Zürich/7"), encoding="utf-8")
    annotation = load_rttm(path)["Zürich/7"]
    read = [(round(s.start, 3), round(s.end, 3), label) for s, _, label in annotation.itertracks(True)]
    assert read == [(seconds(turn.start), seconds(turn.end), turn.speaker) for turn in TURNS]


def test_lines_have_ten_fields_and_three_decimals():
    lines = to_rttm(TURNS, "a").splitlines()
    assert [len(line.split()) for line in lines] == [10] * len(TURNS)
    assert lines[1] == "SPEAKER a 1 0.500 0.125 <NA> <NA> SPEAKER_01 <NA> <NA>"
    assert to_rttm([], "a") == ""


@given(st.integers(0, 10**9), st.integers(17, 10**6))
def test_onset_and_duration_add_up_to_the_printed_end(start, length):
    onset, duration = to_rttm([Turn(start, start + length, "S")], "a").split()[3:5]
    assert float(duration) > 0
    assert round(float(onset) + float(duration), 3) == seconds(start + length)
    assert abs(float(onset) - start / SAMPLE_RATE) <= 0.0005 + 1e-9


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_a_turn_has_a_length_and_lies_in_the_recording(start, end):
    with pytest.raises(ValueError, match=rf"expected 0 <= start < end, got \[{start}, {end}\)"):
        Turn(start, end, "S")


def test_turns_are_ordered_by_time_then_speaker():
    turns = [Turn(5, 9, "B"), Turn(5, 9, "A"), Turn(5, 8, "C"), Turn(0, 20, "D")]
    assert [turn.speaker for turn in sorted(turns)] == ["D", "C", "A", "B"]


def test_labels_have_two_digits_and_more_where_needed():
    assert [speaker_label(index) for index in (0, 9, 99, 100)] == [
        "SPEAKER_00",
        "SPEAKER_09",
        "SPEAKER_99",
        "SPEAKER_100",
    ]
