"""Count the speakers of recordings that are hard on purpose, with exact or human references.

Parts: telephone (two drawn speakers over a telephone line, a minute), alike (the most alike pairs, a minute),
counts (2 to 8 speakers, five minutes), excerpts (30 s of each labelled recording), twice (each labelled
recording, and the same again behind it), long (six speakers for ten hours, 17 minutes of which the networks
hear). A line gives the speakers in the reference, those found, and those found with the constants that the
project began with. A recording whose turns change when the count that was found is asked for is marked *.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from diar_client.decode import decode_file

from diar.block import BlockRunner
from diar.errors import DiarError, SetupError
from diar.options import Options
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.tools.conversation import Scenario
from diar.tools.der import read_rttm
from diar.tools.evaluate import find_pairs
from diar.tools.heard import Heard, hear
from diar.tools.long_recording import closed_circle, examine_long, repeat
from diar.tools.simulate import simulate
from diar.tools.utterances import list_speakers
from diar.tools.voices import alike_pairs, pair_of_rank
from diar.turns import Turn

# the others are as they were
FIRST_CONSTANTS = {"kappa": 2.0, "vmax": 15.0, "min_cluster_s": 0.5, "min_cluster_share": 0.0}
TELEPHONE_CALLS = 20
ALIKE_PAIRS = 10
COUNTS = range(2, 9)
CALL_S, MEETING_S, EXCERPT_S, LONG_S = 60.0, 300.0, 30.0, 36_000.0
LONG_BLOCKS = 32
_STEP = SAMPLE_RATE // 100


@dataclass(frozen=True)
class Bench:
    """What the parts are run with. labelled: folder of <id>.flac and <id>.rttm."""

    profile: Profile
    runner: BlockRunner
    speakers_dir: Path
    labelled: Path | None
    first_seed: int
    seeds: int

    def hear(self, name: str, samples: npt.NDArray[np.int16], reference: Sequence[Turn]) -> Heard:
        """Run the networks over one recording."""
        return hear(name, samples, reference, self.profile, self.runner)

    def simulated(self, scenario: Scenario, speakers: Sequence[str] | None = None) -> Heard:
        """Simulate a conversation and run the networks over it."""
        conversation = simulate(self.speakers_dir, scenario, speakers)
        voices = sorted({turn.speaker for turn in conversation.turns})
        name = f"seed {scenario.seed}, {' '.join(voices)}"
        return self.hear(name, conversation.samples(), conversation.turns)

    def recordings(self) -> Iterator[tuple[str, npt.NDArray[np.int16], list[Turn]]]:
        """The labelled ones: name, (samples,), reference; SetupError without a folder of them."""
        if self.labelled is None:
            raise SetupError("E_OPTION", "parts excerpts and twice need --labelled DIR")
        for audio, rttm in find_pairs(self.labelled):
            yield audio.stem, decode_file(audio).samples, read_rttm(rttm)


@dataclass(frozen=True)
class Case:
    """Speakers of one recording: in the reference, found, found with the first constants.

    stable: asking for the count that was found changes no turn.
    """

    name: str
    reference: int
    found: int
    found_at_first: int
    stable: bool

    @property
    def error(self) -> int:
        """Speakers found less those in the reference."""
        return self.found - self.reference

    def __str__(self) -> str:
        """One line."""
        mark = "" if self.stable else " *"
        return f"  {self.reference} -> {self.found} (at first {self.found_at_first}){mark}  {self.name}"


def examine(heard: Heard, profile: Profile) -> Case:
    """Diarize with the constants of today and of the first day, and once more with the count found."""
    constants = msgspec.structs.replace(profile.clustering, **FIRST_CONSTANTS)
    found = heard.diarize(profile)
    at_first = heard.diarize(msgspec.structs.replace(profile, clustering=constants))
    count = len(found.speakers)
    stable = count == 0 or heard.diarize(profile, Options(num_speakers=count)).turns == found.turns
    return Case(heard.name, heard.num_speakers, count, len(at_first.speakers), stable)


def telephone(bench: Bench) -> Iterator[str]:
    """Calls of two drawn speakers."""
    seeds = range(bench.first_seed, bench.first_seed + TELEPHONE_CALLS)
    scenarios = [Scenario(num_speakers=2, length_s=CALL_S, telephone=True, seed=seed) for seed in seeds]
    cases = yield from _examine_all(bench, (bench.simulated(scenario) for scenario in scenarios))
    yield _right("two found", cases)


def alike(bench: Bench) -> Iterator[str]:
    """Calls of the most alike pairs."""
    pairs = alike_pairs(list_speakers(bench.speakers_dir), bench.runner)
    chosen = [pair_of_rank(pairs, rank) for rank in range(1, 1 + ALIKE_PAIRS)]
    yield "  cosines " + " ".join(f"{pair.cosine:.2f}" for pair in chosen)
    scenario = Scenario(num_speakers=2, length_s=CALL_S, seed=bench.first_seed)
    cases = yield from _examine_all(bench, (bench.simulated(scenario, pair[:2]) for pair in chosen))
    merged, at_first = (sum(count < 2 for count in column) for column in _both(cases))
    yield f"merged: {merged} of {len(cases)} (at first {at_first})"


def counts(bench: Bench) -> Iterator[str]:
    """Conversations of 2 to 8 speakers."""
    scenarios = [
        Scenario(num_speakers=count, length_s=MEETING_S, seed=bench.first_seed + index)
        for count in COUNTS
        for index in range(bench.seeds)
    ]
    cases = yield from _examine_all(bench, (bench.simulated(scenario) for scenario in scenarios))
    yield _right("count right", cases)
    near = sum(abs(case.error) <= 1 for case in cases)
    yield f"off by at most one: {near} of {len(cases)} ({near / len(cases):.0%})"


def excerpts(bench: Bench) -> Iterator[str]:
    """Every 30 s of the labelled recordings, and what is left if it is at least half as long."""

    def cut() -> Iterator[Heard]:
        length = round(EXCERPT_S * SAMPLE_RATE)
        for name, samples, reference in bench.recordings():
            for start in range(0, len(samples) - length // 2 + 1, length):
                end = min(start + length, len(samples))
                turns = [
                    Turn(max(turn.start, start) - start, min(turn.end, end) - start, turn.speaker)
                    for turn in reference
                    if turn.start < end and turn.end > start
                ]
                yield bench.hear(f"{name} from {start // SAMPLE_RATE} s", samples[start:end], turns)

    cases = yield from _examine_all(bench, cut())
    mean = np.mean([case.error for case in cases])
    absolute = np.mean([abs(case.error) for case in cases])
    yield f"found - in the reference: mean {mean:+.2f}, mean |error| {absolute:.2f}, {len(cases)} excerpts"


def twice(bench: Bench) -> Iterator[str]:
    """Labelled recordings, and each again behind itself: are the speakers those of the first time?"""
    same_count = total = 0
    shared = either = 0.0
    for name, samples, reference in bench.recordings():
        once = bench.hear(name, samples, reference).diarize(bench.profile)
        double = bench.hear(name, np.concatenate([samples, samples]), reference).diarize(bench.profile)
        both, any_ = agreement(double.turns, len(samples))
        shared, either = shared + both, either + any_
        same_count += len(once.speakers) == len(double.speakers)
        total += 1
        share = both / any_ if any_ else 1.0
        yield f"  {len(once.speakers)} -> {len(double.speakers)}, {share:.1%} alike  {name}"
    yield f"as many speakers twice as once: {same_count} of {total}"
    yield f"the same speaker both times: {shared / max(either, 1e-9):.1%} of the speech"


def long(bench: Bench) -> Iterator[str]:
    """Ten hours of six speakers."""
    geometry = bench.profile.geometry
    period = LONG_BLOCKS * geometry.windows_per_block * geometry.hop
    scenario = Scenario(num_speakers=6, length_s=period / SAMPLE_RATE, seed=bench.first_seed)
    conversation = simulate(bench.speakers_dir, scenario)
    samples = closed_circle(conversation.samples(), LONG_BLOCKS, bench.profile)
    start = time.perf_counter()
    heard = bench.hear(f"seed {scenario.seed}", samples, conversation.turns)
    network_s_per_s = (time.perf_counter() - start) / len(samples) * SAMPLE_RATE
    times = -(-round(LONG_S * SAMPLE_RATE) // period)
    yield str(examine_long(repeat(heard, times, bench.profile), network_s_per_s, bench.profile))


def agreement(turns: Sequence[Turn], period: int) -> tuple[float, float]:
    """Seconds with the same speaker at a time and ``period`` samples later, and seconds with either.

    >>> agreement([Turn(0, 16_000, "a"), Turn(32_000, 40_000, "a"), Turn(40_000, 48_000, "b")], 32_000)
    (0.5, 1.5)
    """
    steps = period // _STEP
    shared = either = 0
    for speaker in sorted({turn.speaker for turn in turns}):
        active = np.zeros(2 * steps + 1, bool)
        for turn in turns:
            if turn.speaker == speaker:
                active[round(turn.start / _STEP) : round(turn.end / _STEP)] = True
        first, second = active[:steps], active[steps : 2 * steps]
        shared += int((first & second).sum())
        either += int((first | second).sum())
    return shared * _STEP / SAMPLE_RATE, either * _STEP / SAMPLE_RATE


PARTS: dict[str, Callable[[Bench], Iterator[str]]] = {
    "telephone": telephone,
    "alike": alike,
    "counts": counts,
    "excerpts": excerpts,
    "twice": twice,
    "long": long,
}


def _examine_all(bench: Bench, recordings: Iterable[Heard]) -> Generator[str, None, list[Case]]:
    """Yield a line for each recording; return the cases."""
    cases = []
    for heard in recordings:
        cases.append(examine(heard, bench.profile))
        yield str(cases[-1])
    return cases


def _both(cases: Sequence[Case]) -> tuple[list[int], list[int]]:
    """Counts found, and found at first."""
    return [case.found for case in cases], [case.found_at_first for case in cases]


def _right(what: str, cases: Sequence[Case]) -> str:
    right, at_first = (
        sum(count == case.reference for count, case in zip(column, cases, strict=True))
        for column in _both(cases)
    )
    return f"{what}: {right} of {len(cases)} ({right / len(cases):.0%}; at first {at_first})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hard_cases", description=__doc__)
    parser.add_argument("speakers_dir", type=Path, metavar="SPEAKERS_DIR", help="a sub-folder a speaker")
    parser.add_argument("--labelled", type=Path, metavar="DIR", help="of <id>.flac and <id>.rttm")
    parser.add_argument("--part", choices=PARTS, action="append", help="may be repeated; default: all")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="K", help="of each number of speakers")
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--lane", default="auto", help="auto, exact or openvino, for both networks")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="0: as many as there are cores")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        profile = load_profile(options.profile)
        runner = BlockRunner(
            profile,
            options.engines_dir.resolve() / "build",
            segmentation_lane=options.lane,
            embedding_lane=options.lane,
            threads=options.threads,
        )
        bench = Bench(
            profile, runner, options.speakers_dir, options.labelled, options.first_seed, options.seeds
        )
        for part in options.part or PARTS:
            print(f"{part}:", flush=True)
            for line in PARTS[part](bench):
                print(line, flush=True)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
