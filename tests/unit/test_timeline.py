"""The drawing of a diarization for a terminal."""

from __future__ import annotations

import numpy as np
import pytest

from diar.result import Diarization, Speaker
from diar.tools.timeline import listing, timeline
from diar.turns import Turn

RATE = 16_000


def diarization(duration_s: float, *rows: tuple[float, float, str]) -> Diarization:
    turns = tuple(Turn(round(start * RATE), round(end * RATE), speaker) for start, end, speaker in rows)
    speakers = tuple(
        Speaker(label, sum(t.end - t.start for t in turns if t.speaker == label), 1.0)
        for label in sorted({turn.speaker for turn in turns})
    )
    return Diarization(
        round(duration_s * RATE), "p", {}, None, "", turns, (), speakers, np.zeros((2, 4), np.float32), "call"
    )


def test_each_speaker_has_a_row_and_each_column_half_a_second():
    found = diarization(10, (0, 2, "SPEAKER_00"), (1.75, 5, "SPEAKER_01"), (9.5, 10, "SPEAKER_00"))
    head, blank, ticks, first, second, *_ = [line.plain for line in timeline(found, 100)]
    assert head == "call: 0:10, 2 speakers"
    assert blank == ""
    assert ticks == "            |0:00     |0:05"
    assert first == "SPEAKER_00  ████               █"
    assert second == "SPEAKER_01     ▒██████          "


def test_shades_say_how_much_of_a_column_is_speech():
    rows = [(k * 0.5, k * 0.5 + 0.5 * share, "A") for k, share in enumerate([0.02, 0.2, 0.5, 0.8, 1.0])]
    assert [line.plain for line in timeline(diarization(2.5, *rows), 60)][3] == "A   ░▒▓█"


@pytest.mark.parametrize("duration_s", [0.01, 30, 200, 3600, 36_000, 86_400], ids=lambda s: f"{s} s")
@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_length_of_recording_needs_more_than_the_width_or_a_page(duration_s, width):
    found = diarization(duration_s, (0, duration_s, "SPEAKER_00"))
    lines = [line.plain for line in timeline(found, width)]
    assert max(map(len, lines)) <= width
    assert len(lines) <= 4 + 6 * 3 or duration_s > 10 * 3600
    bars = "".join(
        line.split("  ", 1)[1] for line in lines if line.startswith("SPEAKER_00") and "speaks" not in line
    )
    assert set(bars) == {"█"}


def test_no_speech_is_said():
    assert [line.plain for line in timeline(diarization(3), 80)] == [
        "call: 0:03, 0 speakers",
        "no speech found",
    ]


def test_the_listing_counts_what_it_leaves_out():
    turns = diarization(100, *[(k, k + 0.5, "A") for k in range(5)]).turns
    assert [line.plain for line in listing(turns, most=3)][1:] == [
        "   0:01.00 -    0:01.50  A",
        "   0:02.00 -    0:02.50  A",
        "... and 2 more turns",
    ]
