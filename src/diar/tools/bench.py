"""Run ours and other diarizers in turns on the same recording, and print what each takes.

Ours in a process and behind a server, with each profile and lane; senko and sherpa-onnx,
which are installed in environments of their own below engines/build/peers. Prints medians, spread and ratios
of wall and CPU seconds, seconds by stage, the DER, and the most memory of all processes together, which is
that of runs of its own. Loading is in no time, and each gets the same number of cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from diar.artifacts import replacing
from diar.errors import DiarError, SetupError
from diar.profile import SAMPLE_RATE, load_profile
from diar.tools.bench_figures import markdown, ratios, record, summarise, turns_of, with_earlier
from diar.tools.bench_serving import serving_report
from diar.tools.bench_setting import (
    LANES,
    PROFILES,
    Material,
    Ours,
    clean_up_when_told_to_stop,
    folder_material,
    machine,
    material,
    our_commit,
    versions,
)
from diar.tools.der import Errors, pool, score
from diar.tools.peers import REQUIREMENTS, command, make_environment
from diar.tools.process_cost import forget_peaks, peak_mb
from diar.tools.workers import Contestant, Run, working

RUNS = 5
RUNS_ALONE = 2  # both instances of diarize have a recording then
Way = Callable[[], AbstractContextManager[Contestant]]  # opens a contestant
PEERS_PROFILE = "pyannote_campplus"  # whose networks a peer gets that brings none


def peers_ways(options: argparse.Namespace) -> tuple[dict[str, Way], dict[str, str]]:
    """How each peer is opened; of those that cannot run here, why not."""
    ways: dict[str, Way] = {}
    left_out: dict[str, str] = {}
    profile = load_profile(PEERS_PROFILE)
    for name in options.peers:
        try:
            python = make_environment(name, options.engines_dir / "build" / "peers", _say)
            line = command(name, python, options.threads, profile, options.engines_dir)
            with working(name, line):
                ways[name] = partial(working, name, line)
        except SetupError as err:
            left_out[name] = err.text
            _say(f"{name} is left out: {err.text}")
    return ways, left_out


def take_turns(contestants: Sequence[Contestant], recording: Material, rounds: int) -> dict[str, list[Run]]:
    """Let everybody diarize the recording once a round."""
    by_name = {contestant.name: contestant for contestant in contestants}
    runs: dict[str, list[Run]] = {name: [] for name in by_name}
    for name in turns_of(list(by_name), rounds):
        run = by_name[name].run(recording.audio)
        runs[name].append(run)
        _say(f"{name}: {run.wall_s:.2f} s, {run.cpu_s:.2f} s of CPU")
    return runs


def der_of(contestant: Contestant, recordings: Sequence[Material]) -> Errors:
    """The pooled errors of a contestant over labelled recordings, at collar 0."""
    found = []
    for recording in recordings:
        turns = contestant.run(recording.audio).turns
        found.append(score(recording.reference or (), turns, recording.num_samples, 0.0))
    return pool(found)


def measure_alone(name: str, way: Way, recording: Material, labelled: Sequence[Material]) -> dict[str, Any]:
    """The most memory over RUNS_ALONE runs in a row, which are not timed, and the DER of a folder."""
    with way() as contestant:
        forget_peaks(contestant.processes())
        for _ in range(RUNS_ALONE):
            contestant.run(recording.audio)
        peak = peak_mb(contestant.processes())
        _say(f"{name} alone: {peak:.0f} MB")
        found = {"load_s": round(contestant.load_s, 2), "peak_mb": round(peak, 1)}
        if labelled and "grpc" not in name:  # which are the same bytes as in process
            found["folder_der"] = der_of(contestant, labelled).der
    return found


def bench(options: argparse.Namespace) -> dict[str, Any]:
    """The report."""
    earlier = json.loads(options.json.read_text(encoding="utf-8")) if options.add else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = material(options.audio, options.speakers, options.length_s, folder)
        if earlier and earlier["audio"] != recording.description():
            raise SetupError("E_ARGUMENTS", f"--add: {options.json} is about {earlier['audio']}")
        ways: dict[str, Way] = {
            way.name: partial(way.opened, options.serve, options.engines_dir) for way in Ours.all(options)
        }
        peers, left_out = peers_ways(options)
        ways |= peers
        with ExitStack() as together:
            contestants = [together.enter_context(way()) for way in ways.values()]
            runs = take_turns(contestants, recording, options.runs)
        labelled = folder_material(options.dev, folder) if options.dev else []
        alone = {name: measure_alone(name, way, recording, labelled) for name, way in ways.items()}
    return {
        "commit": our_commit(options.engines_dir),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "audio": recording.description(),
        "threads": options.threads,
        "peers": list(REQUIREMENTS),
        "left_out": left_out,
        "contestants": _rows(runs, recording, alone, earlier),
    }


def _rows(
    runs: dict[str, list[Run]],
    recording: Material,
    alone: dict[str, dict[str, Any]],
    earlier: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """A row for each contestant, of this report and of the one that is added to."""
    known = {row["name"]: row for row in earlier["contestants"]} if earlier else {}
    records = with_earlier({name: [record(run) for run in some] for name, some in runs.items()}, earlier)
    rows = [
        known.get(name, {}) | alone.get(name, {}) | summarise(name, some, recording.num_samples / SAMPLE_RATE)
        for name, some in records.items()
    ]
    for row in rows:
        if row["name"] in runs and recording.reference is not None:
            turns = runs[row["name"]][0].turns
            row["der"] = score(recording.reference, turns, recording.num_samples, 0.0).der
        row["ratios"] = ratios(row, [other for other in rows if other["name"] in REQUIREMENTS])
    return rows


def _names(*known: str) -> Any:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if known and (unknown := sorted(set(names) - set(known))):
            raise argparse.ArgumentTypeError(f"got {', '.join(unknown)}, expected some of {', '.join(known)}")
        return names

    return parse


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    add = parser.add_argument
    add("audio", nargs="?", type=Path, metavar="AUDIO", help="default: a simulated conversation")
    add("--speakers", type=Path, metavar="DIR", help="what it is made of, see scripts/simulate")
    add("--length-s", type=float, default=600.0, metavar="S", help="of the conversation; default %(default)g")
    add("--runs", type=int, default=RUNS, metavar="N", help="of each; default: %(default)s")
    add("--threads", type=int, default=2, metavar="N", help="cores for each; default: %(default)s")
    add("--profiles", type=_names(), default=list(PROFILES), help=f"or paths; default: {','.join(PROFILES)}")
    add("--lanes", type=_names(*LANES), default=list(LANES[:2]), help="default: openvino:fp32,openvino:bf16")
    add("--ways", type=_names("process", "grpc"), default=["process", "grpc"], help="default: process,grpc")
    add("--replicas", type=int, default=1, metavar="R", help="of the networks in the server")
    add("--peers", type=_names(*REQUIREMENTS), default=[], help="senko,sherpa-onnx; default: none")
    add("--dev", type=Path, metavar="DIR", help="DER over its <id>.flac and <id>.rttm, too")
    add("--serving", action="store_true", help="what serving costs, and recordings at once, instead")
    add("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    add("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    add("--json", type=Path, metavar="FILE", help="write the report there, too")
    add("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    add("--add", action="store_true", help="to the runs of the report in --json FILE")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.threads < 1 or options.replicas < 1:
        parser.error("--runs, --threads and --replicas: expected at least 1")
    if options.add and not (options.json and options.json.is_file()):
        parser.error("--add needs --json FILE with a report")
    if options.audio is None and options.speakers is None:
        parser.error("expected AUDIO, or --speakers DIR to simulate a conversation from")
    options.engines_dir, options.serve = options.engines_dir.resolve(), options.serve.resolve()
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = parse_arguments(arguments)
    clean_up_when_told_to_stop()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # all that is started, too
    try:
        document, text = serving_report(options) if options.serving else _report(options)
        for file, content in [(options.json, json.dumps(document, indent=1)), (options.markdown, text)]:
            if file:
                with replacing(file.resolve()) as draft:
                    draft.write_text(content + "\n", encoding="utf-8")
    except (DiarError, OSError) as err:
        print(f"error: {err.text if isinstance(err, DiarError) else err}", file=sys.stderr)
        return 1
    print(text)
    return 0


def _report(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    document = bench(options)
    return document, markdown(document)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
