"""Have a server work for a long time and see that it does not grow: memory, shared memory, open files.

Starts a server of its own; options after ``--`` go to scripts/serve. Clients send cuts of a recording all the
time, a few of them bad or given up. Every half minute the anonymous memory of all its processes, what they
have in /dev/shm and their open files are printed. (Not the PSS, which changes with whoever else uses the same
libraries.) Fails if, from a third of the time on, one of them grows faster than its limit, or an answer
differs from the first one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from diar_client import DiarizationClient

from diar.errors import DiarError
from diar.tools.chaos import Tally, own_server_parser, prepare_cuts, run_client, split_arguments
from diar.tools.live_server import RunningServer, running_server

EVERY_S = 30.0
WARM_SHARE = 1 / 3  # of the time, in which caches may still fill
LIMITS = {"anon_mb": 60.0, "shm_mb": 20.0, "files": 10.0}  # growth per hour; a whole hour of audio is 115 MB


@dataclass(frozen=True)
class Sample:
    """How big the server is. minutes: since the start."""

    minutes: float
    anon_mb: float
    shm_mb: float
    files: float

    @classmethod
    def take(cls, server: RunningServer, minutes: float) -> Sample:
        """Look at all its processes."""
        files, anon_kb = 0, 0
        for process in server.processes():
            try:
                files += process.num_fds()
                anon_kb += anonymous_kb(process.pid)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                continue
        return cls(minutes, anon_kb * 1024 / 1e6, sum(server.regions().values()) / 1e6, files)


def anonymous_kb(pid: int) -> int:
    """RssAnon of a process: memory that is its own and no file's."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")), 0)


def growth_per_hour(samples: Sequence[Sample], name: str) -> float:
    """Slope of a straight line through one figure, of what is left after warming up (least squares).

    >>> growth_per_hour([Sample(minute, 100.0 + minute, 0.0, 0.0) for minute in range(10)], "anon_mb")
    60.0
    """
    warm = [sample for sample in samples if sample.minutes >= WARM_SHARE * samples[-1].minutes]
    if len(warm) < 2:
        return 0.0
    slope = np.polyfit(
        [sample.minutes / 60 for sample in warm], [getattr(sample, name) for sample in warm], 1
    )
    return round(float(slope[0]), 3)


def report(samples: Sequence[Sample], tally: Tally) -> bool:
    """Print the slopes and the counts; whether all is as it must be."""
    print(f"requests: {tally.sent} sent, {tally.right} right, {tally.given_up} given up by the client,")
    print(
        f"          {sum(tally.words.values())} refused by name, {len(tally.lost)} lost, {tally.wrong} wrong"
    )
    well = not tally.lost and not tally.wrong and tally.right > 0
    for name, limit in LIMITS.items():
        growth = growth_per_hour(samples, name)
        print(f"{name:8} {growth:8.1f} per hour, expected at most {limit:g}")
        well &= growth <= limit
    return well


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    own, more = split_arguments(list(sys.argv[1:] if arguments is None else arguments))
    parser = own_server_parser("soak", __doc__)
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="default: %(default)g")
    parser.add_argument("--clients", type=int, default=2, metavar="N", help="default: %(default)s")
    options = parser.parse_args(own)
    try:
        cuts = prepare_cuts(options.audio, options.engines_dir)
        with running_server(options.serve.resolve(), more) as server:
            with DiarizationClient(server.url) as client:
                answers = [client.diarize(cut, mode="server").to_json() for cut in cuts]
            start, tally = time.monotonic(), Tally()
            end = start + 60 * options.minutes
            urls = [server.url, server.http_url]
            clients = [
                threading.Thread(
                    target=run_client,
                    args=(urls[number % 2], server.http_url, cuts, answers, end, tally, number),
                )
                for number in range(options.clients)
            ]
            for thread in clients:
                thread.start()
            samples = watch(server, start, end)
            for thread in clients:
                thread.join()
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0 if report(samples, tally) else 1


def watch(server: RunningServer, start: float, end: float) -> list[Sample]:
    """Take and print samples until ``end``."""
    samples: list[Sample] = []
    print("minutes  anon MB   shm MB   open files")
    while time.monotonic() < end:
        samples.append(Sample.take(server, (time.monotonic() - start) / 60))
        last = samples[-1]
        print(f"{last.minutes:7.1f} {last.anon_mb:8.0f} {last.shm_mb:8.0f} {last.files:12.0f}", flush=True)
        time.sleep(max(0.0, min(EVERY_S, end - time.monotonic())))
    return samples


if __name__ == "__main__":
    sys.exit(main())
