"""Run ours and other diarizers in turns on the same recording, and print what each takes.

Ours in a process and behind a server, with each profile and lane; senko and sherpa-onnx,
which are installed in environments of their own below engines/build/peers. Prints medians, spread and ratios
of wall and CPU seconds, seconds by stage, the most memory, and the DER. Loading is in no time, and each gets
the same number of cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
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
from diar.tools.workers import Contestant, Run, working

RUNS = 5
PEERS_PROFILE = "pyannote_campplus"  # whose networks a peer gets that brings none


def open_peers(names: Sequence[str], options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """The peers that run here as contestants, the others with the reason why they do not."""
    found: dict[str, Contestant | str] = {}
    profile = load_profile(PEERS_PROFILE)
    for name in names:
        try:
            python = make_environment(name, options.engines_dir / "build" / "peers", _say)
            line = command(name, python, options.threads, profile, options.engines_dir)
            found[name] = stack.enter_context(working(name, line))
        except SetupError as err:
            found[name] = err.text
            _say(f"{name} is left out: {err.text}")
    return found


def take_turns(contestants: Sequence[Contestant], recording: Material, rounds: int) -> dict[str, list[Run]]:
    """Let everybody diarize the recording once a round."""
    by_name = {contestant.name: contestant for contestant in contestants}
    runs: dict[str, list[Run]] = {name: [] for name in by_name}
    for name in turns_of(list(by_name), rounds):
        run = by_name[name].run(recording.audio)
        runs[name].append(run)
        _say(f"{name}: {run.wall_s:.2f} s, {run.cpu_s:.2f} s of CPU, {run.peak_pss_mb:.0f} MB")
    return runs


def der_of(contestant: Contestant, recordings: Sequence[Material]) -> Errors:
    """The pooled errors of a contestant over labelled recordings, at collar 0."""
    found = []
    for recording in recordings:
        turns = contestant.run(recording.audio).turns
        found.append(score(recording.reference or (), turns, recording.num_samples, 0.0))
    return pool(found)


def bench(options: argparse.Namespace) -> dict[str, Any]:
    """The report."""
    earlier = json.loads(options.json.read_text(encoding="utf-8")) if options.add else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = material(options.audio, options.speakers, options.length_s, folder)
        if earlier and earlier["audio"] != recording.description():
            raise SetupError("E_ARGUMENTS", f"--add: {options.json} is about {earlier['audio']}")
        ours = [
            stack.enter_context(way.opened(options.serve, options.engines_dir)) for way in Ours.all(options)
        ]
        peers = open_peers(options.peers, options, stack)
        running = [*ours, *(peer for peer in peers.values() if not isinstance(peer, str))]
        runs = take_turns(running, recording, options.runs)
        labelled = folder_material(options.dev, folder) if options.dev else []
        folder_der = {
            contestant.name: der_of(contestant, labelled).der
            for contestant in (running if labelled else ())
            if "grpc" not in contestant.name  # the same bytes as in process
        }
        loads = {contestant.name: round(contestant.load_s, 2) for contestant in running}
    rows = _rows(runs, recording, folder_der, loads, earlier)
    return {
        "commit": our_commit(options.engines_dir),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "audio": recording.description(),
        "threads": options.threads,
        "peers": list(REQUIREMENTS),
        "left_out": {name: reason for name, reason in peers.items() if isinstance(reason, str)},
        "contestants": rows,
    }


def _rows(
    runs: dict[str, list[Run]],
    recording: Material,
    folder_der: dict[str, float],
    loads: dict[str, float],
    earlier: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """A row for each contestant, of this report and of the one that is added to."""
    known = {row["name"]: row for row in earlier["contestants"]} if earlier else {}
    records = with_earlier({name: [record(run) for run in some] for name, some in runs.items()}, earlier)
    rows = [summarise(name, some, recording.num_samples / SAMPLE_RATE) for name, some in records.items()]
    for row in rows:
        name = row["name"]
        old = known.get(name, {})
        row["load_s"] = loads.get(name, old.get("load_s"))
        row["der"] = old.get("der")
        if runs.get(name) and recording.reference is not None:
            row["der"] = score(recording.reference, runs[name][0].turns, recording.num_samples, 0.0).der
        if name in folder_der or "folder_der" in old:
            row["folder_der"] = folder_der.get(name, old.get("folder_der"))
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
