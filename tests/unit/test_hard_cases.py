"""The acceptance figures of the clustering, over a recording whose turns were planted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from planted import PlantedNets

from diar.options import Options
from diar.tools import hard_cases
from diar.tools.hard_cases import FIRST_CONSTANTS, PARTS, Bench, agreement, examine
from diar.tools.heard import hear, judge
from diar.tools.voices import Pair
from diar.turns import Turn

S = 16_000
TURNS = [(0, 20 * S, 7), (20 * S, 40 * S, 3), (41 * S, 44 * S, 5), (45 * S, 70 * S, 7)]
REFERENCE = [Turn(start, end, f"voice {voice}") for start, end, voice in TURNS]
LENGTH = 70 * S


class PlantedRunner(PlantedNets):
    """Planted networks as a block runner; a recording is as many samples as ``samples`` gives."""

    def run(self, span):
        return self.answer(span)


@pytest.fixture(scope="module")
def runner(profile):
    return PlantedRunner(profile, TURNS)


@pytest.fixture(scope="module")
def heard(profile, runner):
    return hear("planted", runner.samples(LENGTH), REFERENCE, profile, runner)


@pytest.fixture
def bench(profile, runner, monkeypatch):
    """A bench whose labelled recordings, simulated or not, are all the planted one."""

    @dataclass(frozen=True)
    class Conversation:
        turns: tuple[Turn, ...] = tuple(REFERENCE)

        def samples(self):
            return runner.samples(LENGTH)

    monkeypatch.setattr(hard_cases, "simulate", lambda *_: Conversation())
    monkeypatch.setattr(hard_cases, "list_speakers", lambda folder: {})
    monkeypatch.setattr(
        hard_cases, "alike_pairs", lambda *_: [Pair("a", "b", 0.9 - i / 100) for i in range(10)]
    )
    monkeypatch.setattr(
        Bench, "recordings", lambda self: iter([("planted", runner.samples(LENGTH), REFERENCE)])
    )
    return Bench(profile, runner, None, None, first_seed=5, seeds=2)


def test_a_heard_recording_is_judged_as_it_was_planted(heard, profile):
    der, count_error = judge([heard, heard], profile)
    assert der < 0.01
    assert count_error == 0
    assert heard.num_speakers == 3


def test_options_are_passed_on(heard, profile):
    assert len(heard.diarize(profile, Options(num_speakers=2)).speakers) == 2


def test_a_case_has_the_counts_and_says_whether_asking_changes_anything(heard, profile):
    case = examine(heard, profile)
    assert (case.reference, case.found, case.found_at_first, case.stable) == (3, 3, 3, True)
    assert str(case) == "  3 -> 3 (at first 3)  planted"
    assert str(replace(case, found=4, stable=False)) == "  3 -> 4 (at first 3) *  planted"


def test_the_first_constants_are_used(heard, profile, monkeypatch):
    monkeypatch.setitem(FIRST_CONSTANTS, "min_cluster_s", 10.0)  # voice 5 speaks for 3 s
    assert examine(heard, profile).found_at_first == 2


def test_silence_is_a_case(profile):
    nets = PlantedRunner(profile, [])
    silent = hear("silence", nets.samples(12 * S), [], profile, nets)
    assert (examine(silent, profile).found, examine(silent, profile).stable) == (0, True)


@pytest.mark.parametrize(
    ("part", "recordings", "last"),
    [
        ("telephone", 20, ["two found: 0 of 20 (0%; at first 0)"]),
        ("alike", 11, ["merged: 0 of 10 (at first 0)"]),
        ("counts", 14, ["count right: 14 of 14 (100%; at first 14)", "off by at most one: 14 of 14 (100%)"]),
    ],
)
def test_each_part_ends_with_its_figures(bench, part, recordings, last, monkeypatch):
    if part == "telephone":  # three speakers where two were asked for are wrong
        monkeypatch.setattr(hard_cases.Heard, "num_speakers", 2)
    lines = list(PARTS[part](bench))
    assert len(lines) == recordings + len(last)
    assert lines[recordings:] == last


def test_excerpts_have_the_speakers_that_are_heard_in_them(bench, runner, monkeypatch):
    spans = []

    def hear(self, name, samples, reference):
        spans.append((name, len(samples) / S, [(t.start // S, t.end // S, t.speaker) for t in reference]))
        return hard_cases.hear(name, runner.samples(len(samples)), reference, self.profile, runner)

    monkeypatch.setattr(Bench, "hear", hear)
    monkeypatch.setattr(hard_cases, "EXCERPT_S", 28.0)
    *_, last = PARTS["excerpts"](bench)
    assert (
        spans
        == [
            ("planted from 0 s", 28, [(0, 20, "voice 7"), (20, 28, "voice 3")]),
            (
                "planted from 28 s",
                28,
                [(0, 12, "voice 3"), (13, 16, "voice 5"), (17, 28, "voice 7")],
            ),
            ("planted from 56 s", 14, [(0, 14, "voice 7")]),
        ][: len(spans)]
    )
    # the planted networks begin anew each time: 2, 2 and 1 speakers are found
    assert last == "found - in the reference: mean -0.33, mean |error| 0.33, 3 excerpts"


def test_twice_the_same_is_the_same_speakers(bench, runner, profile, monkeypatch):
    doubled = PlantedRunner(profile, [*TURNS, *((a + LENGTH, b + LENGTH, v) for a, b, v in TURNS)])

    def hear(self, name, samples, reference):
        nets = doubled if len(samples) > LENGTH else runner
        return hard_cases.hear(name, nets.samples(len(samples)), reference, profile, nets)

    monkeypatch.setattr(Bench, "hear", hear)
    lines = list(PARTS["twice"](bench))
    assert lines[0].startswith("  3 -> 3, ")
    assert lines[1] == "as many speakers twice as once: 1 of 1"
    assert float(lines[2].split()[5].rstrip("%")) > 99


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param([Turn(0, S, "a"), Turn(2 * S, 3 * S, "a")], (1.0, 1.0), id="kept"),
        pytest.param([Turn(0, S, "a"), Turn(2 * S, 3 * S, "b")], (0.0, 2.0), id="renamed"),
        pytest.param([], (0.0, 0.0), id="silent"),
    ],
)
def test_agreement_of_both_halves_by_hand(turns, expected):
    assert agreement(turns, 2 * S) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--part", "twice"], "need --labelled"),
        (["--part", "telephone"], "no folder"),
    ],
)
def test_what_is_missing_is_one_line_and_exit_1(arguments, message, tmp_path, capsys, monkeypatch, runner):
    monkeypatch.setattr(hard_cases, "BlockRunner", lambda *_, **__: runner)
    assert hard_cases.main([str(tmp_path / "nowhere"), *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_seeds_follow_the_first(bench, monkeypatch):
    scenarios = []
    monkeypatch.setattr(
        Bench, "simulated", lambda self, scenario, speakers=None: scenarios.append(scenario) or 1
    )
    monkeypatch.setattr(hard_cases, "examine", lambda heard, profile: hard_cases.Case("", 2, 2, 2, True))
    for part in ("telephone", "counts"):
        list(PARTS[part](bench))
    assert [scenario.seed for scenario in scenarios[:20]] == list(range(5, 25))
    assert all(scenario.telephone for scenario in scenarios[:20])
    assert [(s.num_speakers, s.seed) for s in scenarios[20:24]] == [(2, 5), (2, 6), (3, 5), (3, 6)]
    assert np.unique([s.length_s for s in scenarios[20:]]).tolist() == [300.0]
