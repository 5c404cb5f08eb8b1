"""What serving costs: gRPC and HTTP beside the same work in one process, and many recordings at once."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import soundfile
from diar_client import DiarizationClient

from diar.profile import SAMPLE_RATE
from diar.tools.bench_figures import record, summarise, turns_of
from diar.tools.bench_setting import Ours, machine, material, our_commit, versions
from diar.tools.live_server import RunningServer
from diar.tools.simulate import Pcm
from diar.tools.workers import Contestant, Run, Served

AT_ONCE = (1, 2, 4, 8)
SHARE = 0.2  # of the recording: what is sent many times at once


def batch_seconds(server: RunningServer, samples: Pcm, number: int, at_once: int) -> float:
    """Seconds for ``number`` recordings of which ``at_once`` are under way, each on its own connection."""
    with ExitStack() as stack:
        clients = [stack.enter_context(DiarizationClient(server.url)) for _ in range(at_once)]
        with ThreadPoolExecutor(at_once) as pool:
            began = time.perf_counter()
            list(
                pool.map(
                    lambda index: clients[index % at_once].diarize(samples, mode="server"), range(number)
                )
            )
            return time.perf_counter() - began


def overheads(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Each protocol's wall and CPU seconds over those of the first row, as a fraction more.

    >>> overheads([{"name": "in process", "wall_s_per_minute": 2.0, "cpu_s_per_minute": 4.0},
    ...            {"name": "grpc", "wall_s_per_minute": 2.1, "cpu_s_per_minute": 4.4}])
    {'grpc': {'wall': 0.05, 'cpu': 0.1}}
    """
    base = rows[0]
    return {
        row["name"]: {
            kind: round(row[f"{kind}_s_per_minute"] / base[f"{kind}_s_per_minute"] - 1, 4)
            for kind in ("wall", "cpu")
        }
        for row in rows[1:]
    }


def throughput(seconds: Mapping[int, Sequence[float]], audio_s: float) -> list[dict[str, float]]:
    """Audio seconds per second at each number of recordings at once, and its ratio to one after another.

    >>> throughput({1: [10.0, 12.0, 11.0], 4: [9.0, 10.0, 11.0]}, 110.0)[1]
    {'at_once': 4, 'audio_s_per_s': 11.0, 'of_one_after_another': 1.1}
    """
    rates = {number: audio_s / statistics.median(times) for number, times in seconds.items()}
    return [
        {
            "at_once": number,
            "audio_s_per_s": round(rate, 2),
            "of_one_after_another": round(rate / rates[1], 3),
        }
        for number, rate in rates.items()
    ]


def serving_report(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """The report and its text, for the first profile and lane of the command line."""
    ours = Ours.all(options)[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = material(options.audio, options.speakers, options.length_s, folder)
        server = stack.enter_context(ours.serving(options.serve))
        local = replace(ours, way="process")
        contestants: list[Contestant] = [
            stack.enter_context(local.opened(options.serve, options.engines_dir)),
            Served("grpc", server, "grpc"),
            Served("http", server, "http"),
        ]
        contestants[0].name = "in process"
        runs: dict[str, list[Run]] = {contestant.name: [] for contestant in contestants}
        samples, _ = soundfile.read(recording.audio, dtype="int16")
        part = samples[: int(SHARE * len(samples))]
        number, seconds = max(AT_ONCE), {at_once: [0.0] * 0 for at_once in AT_ONCE}
        by_name = {contestant.name: contestant for contestant in contestants}
        for name in turns_of(list(by_name), options.runs):
            runs[name].append(by_name[name].run(recording.audio))
            _say(f"{name}: {runs[name][-1].wall_s:.2f} s")
        for at_once in turns_of([str(count) for count in AT_ONCE], options.runs):
            took = batch_seconds(server, part, number, int(at_once))
            seconds[int(at_once)].append(took)
            _say(f"{at_once} at once: {took:.2f} s for {number}")
    audio_s = recording.num_samples / SAMPLE_RATE
    rows = [summarise(name, [record(run) for run in some], audio_s) for name, some in runs.items()]
    document = {
        "commit": our_commit(options.engines_dir),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "what": ours.name.removesuffix(f" {ours.way}"),
        "audio": recording.description(),
        "threads": options.threads,
        "replicas": options.replicas,
        "contestants": rows,
        "overhead": overheads(rows),
        "recordings": {"number": number, "seconds": len(part) / SAMPLE_RATE},
        "at_once_s": seconds,
        "throughput": throughput(seconds, number * len(part) / SAMPLE_RATE),
    }
    return document, serving_text(document)


def serving_text(document: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "| way | wall s | CPU s / min | wall over in process | CPU over in process |",
        "|---|---|---|---|---|",
    ]
    for row in document["contestants"]:
        more = document["overhead"].get(row["name"])
        wall, cpu = (f"{100 * more[kind]:+.1f} %" if more else "" for kind in ("wall", "cpu"))
        median = f"{row['wall_s']['median']:.2f}"
        lines.append(f"| {row['name']} | {median} | {row['cpu_s_per_minute']:.2f} | {wall} | {cpu} |")
    lines += ["", "| recordings at once | audio s per s | of one after another |", "|---|---|---|"]
    for row in document["throughput"]:
        lines.append(f"| {row['at_once']} | {row['audio_s_per_s']:.1f} | {row['of_one_after_another']:.3f} |")
    many, audio = document["recordings"], document["audio"]
    runs = len(document["contestants"][0]["runs"])
    lines += [
        "",
        f"{audio['name']}, {audio['seconds'] / 60:.1f} min, {document['what']}, networks in"
        f" {document['replicas']} process(es), {document['threads']} threads; medians of {runs} runs"
        f" that took turns; at once: {many['number']} recordings of {many['seconds']:.0f} s."
        f" {document['machine']}; {document['versions']}; commit {document['commit']}, {document['date']}.",
    ]
    return "\n".join(lines)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
