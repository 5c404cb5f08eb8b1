"""Recordings of many hours are made of what the networks heard once."""

import numpy as np
import pytest
from planted import PlantedNets

from diar.spans import plan_blocks
from diar.tools import hard_cases
from diar.tools.hard_cases import PARTS, Bench
from diar.tools.heard import hear
from diar.tools.long_recording import closed_circle, examine_long, repeat
from diar.turns import Turn

S = 16_000
PERIOD = 2 * 32 * S
TURNS = [(0, 20 * S, 7), (20 * S, 40 * S, 3), (41 * S, PERIOD, 5), (PERIOD, PERIOD + 9 * S, 7)]
REFERENCE = [Turn(start, end, f"voice {voice}") for start, end, voice in TURNS]


@pytest.fixture(scope="module")
def heard(profile):
    nets = PlantedNets(profile, TURNS)
    nets.run = nets.answer
    return hear("planted", nets.samples(PERIOD + 9 * S), REFERENCE, profile, nets)


def test_a_closed_circle_ends_with_its_beginning(profile):
    samples = np.arange(PERIOD + 5).astype(np.int16)
    circle = closed_circle(samples, 2, profile)
    assert profile.geometry.num_windows(len(circle)) == 64
    np.testing.assert_array_equal(circle[PERIOD:], samples[: 9 * S])


def test_blocks_are_those_of_the_whole_recording(heard, profile):
    long = repeat(heard, 3, profile)
    assert [block for block, _ in long.blocks] == plan_blocks(long.num_samples, profile.geometry)
    assert long.num_samples == 3 * PERIOD + 9 * S


def test_what_is_heard_again_is_alike_but_not_the_same(heard, profile):
    long = repeat(heard, 2, profile)
    for (_, first), (_, again) in zip(long.blocks[:2], long.blocks[2:], strict=True):
        np.testing.assert_array_equal(first.logits, again.logits)
        one, two = (result.embeddings[result.embeddings.any(-1)] for result in (first, again))
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        cosines = (one * two).sum(axis=1) / lengths
        assert 0.9 < cosines.mean() < 0.99


def test_the_speakers_stay_and_the_time_is_shared_out(heard, profile):
    case = examine_long(repeat(heard, 5, profile), 0.25, profile)
    assert (case.reference, case.found) == (3, 3)
    assert case.network_s == pytest.approx(0.25 * (5 * 64 + 9))
    assert 0 < case.clustering_s < 5
    lines = str(case).splitlines()
    assert lines[0] == "  3 -> 3  0.1 h"
    assert "(estimated), clustering" in lines[1]


def test_the_part_repeats_until_it_is_as_long_as_wanted(profile, monkeypatch):
    nets = PlantedNets(profile, TURNS)
    nets.run = nets.answer

    class Conversation:
        turns = REFERENCE

        def samples(self):
            return nets.samples(PERIOD)

    circle = nets.samples(PERIOD + 9 * S)
    monkeypatch.setattr(hard_cases, "simulate", lambda *_: Conversation())
    monkeypatch.setattr(hard_cases, "closed_circle", lambda *_: circle)
    monkeypatch.setattr(hard_cases, "LONG_BLOCKS", 2)
    monkeypatch.setattr(hard_cases, "LONG_S", 200.0)
    (text,) = PARTS["long"](Bench(profile, nets, None, None, first_seed=0, seeds=1))
    assert text.startswith("  3 -> 3  0.1 h\n")
