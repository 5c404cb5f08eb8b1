"""The judgement of confidences: right and wrong seconds, the area under the curve, the reliability table."""

import pytest

from diar.tools.confidence import Judged, area_under_curve, judge_turns, lines, reliability
from diar.turns import Turn

SECOND = 16_000


def turn(start_s, end_s, speaker, confidence=1.0):
    return Turn(round(start_s * SECOND), round(end_s * SECOND), speaker, confidence)


def test_seconds_of_a_turn_are_right_where_its_speaker_speaks():
    reference = [turn(0, 4, "anna"), turn(4, 10, "ben")]
    found = [turn(0, 5, "SPEAKER_00", 0.9), turn(5, 10, "SPEAKER_01", 0.8), turn(10, 11, "SPEAKER_02", 0.1)]
    judged = judge_turns(reference, found, 12 * SECOND)
    assert judged == [Judged(0.9, 4, 1), Judged(0.8, 5, 0), Judged(0.1, 0, 1)]


@pytest.mark.parametrize(
    ("judged", "area"),
    [
        pytest.param([Judged(0.9, 2, 0), Judged(0.1, 0, 3)], 1.0, id="told-apart"),
        pytest.param([Judged(0.1, 2, 0), Judged(0.9, 0, 3)], 0.0, id="the-wrong-way-round"),
        pytest.param([Judged(0.5, 2, 3)], 0.5, id="all-the-same"),
        pytest.param([Judged(0.9, 1, 0), Judged(0.5, 1, 1)], 0.75, id="half-of-the-right-above"),
    ],
)
def test_area_is_the_chance_that_a_right_second_has_the_higher_confidence(judged, area):
    assert area_under_curve(judged) == pytest.approx(area)


def test_reliability_holds_every_second_once():
    judged = [Judged(1.0, 5, 1), Judged(0.95, 1, 1), Judged(0.0, 0, 2)]
    assert reliability(judged) == [(0.0, 0.3, 2, 0.0), (0.95, 1.0, 8, 0.75)]
    assert any("75.0 % right" in line for line in lines(judged))
