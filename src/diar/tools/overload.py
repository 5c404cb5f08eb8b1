"""Throughput, refusals and memory of a server with more and more clients.

Starts a server of its own; options after ``--`` go to scripts/serve. In turns, so many times each, 1, 2, 4
and 50 clients send 30 s of a recording, one after the other, for a while. Printed are the medians: seconds
of audio answered per second, answers, refusals (UNAVAILABLE, at once, by the server's queue), and the most
memory (PSS) and /dev/shm that all processes of the server had. Fails if a request was neither answered right
nor refused by name.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from diar_client import DiarizationClient
from diar_client.retry import Patience

from diar.errors import DiarError, Overloaded
from diar.profile import SAMPLE_RATE
from diar.spans import Samples
from diar.tools.chaos import own_server_parser, prepare_cuts, split_arguments
from diar.tools.live_server import RunningServer, running_server
from diar.tools.process_cost import pss_mb

CLIENTS = (1, 2, 4, 50)
CUT_S = 30
ANSWER_S = 300.0
LOOK_EVERY_S = 1.0
REFUSED_PAUSE_S = 1.0  # a client that was refused comes back after so long


@dataclass
class Round:
    """What became of the requests of one round, and how big the server got meanwhile."""

    clients: int
    answered: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    pss_mb: float = 0.0
    shm_mb: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def throughput(self) -> float:
        """Seconds of audio answered per second."""
        return self.answered * CUT_S / self.seconds


def run_round(server: RunningServer, cut: Samples, expected: bytes, clients: int, duration_s: float) -> Round:
    """Have clients send the cut until ``duration_s`` have passed, and wait for the last answers."""
    result, began = Round(clients), time.monotonic()
    end = began + duration_s
    threads = [
        threading.Thread(target=send_until, args=(server.url, cut, expected, end, result))
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        result.pss_mb = max(result.pss_mb, pss_mb(server.processes()))
        result.shm_mb = max(result.shm_mb, sum(server.regions().values()) / 1e6)
        time.sleep(LOOK_EVERY_S)
    for thread in threads:
        thread.join()
    return result


def send_until(url: str, cut: Samples, expected: bytes, end: float, result: Round) -> None:
    """One client: one request after the other, none of them tried again."""
    began = time.monotonic()
    with DiarizationClient(url, timeout_s=ANSWER_S, patience=Patience(retries=0)) as client:
        while time.monotonic() < end:
            try:
                answer = client.diarize(cut, mode="server").to_json()
            except Overloaded:
                with result.lock:
                    result.refused += 1
                time.sleep(REFUSED_PAUSE_S)
            except DiarError as err:
                with result.lock:
                    result.wrong.append(err.text)
            else:
                with result.lock:
                    result.answered += 1
                    result.seconds = max(result.seconds, time.monotonic() - began)
                    if answer != expected:
                        result.wrong.append("an answer differs from the first one")


def table(rounds: Sequence[Round]) -> str:
    """Markdown: medians for each number of clients, the greatest of memory.

    >>> print(table([Round(1, answered=2, seconds=10.0, pss_mb=900.0), Round(1, answered=4, seconds=10.0)]))
    | clients | audio s per s | of 1 client | answered | refused | PSS MB | /dev/shm MB |
    |---|---|---|---|---|---|---|
    | 1 | 9.00 | 100 % | 3 | 0 | 900 | 0 |
    """
    lines = [
        "| clients | audio s per s | of 1 client | answered | refused | PSS MB | /dev/shm MB |",
        "|---|---|---|---|---|---|---|",
    ]
    first = 0.0
    for clients in dict.fromkeys(each.clients for each in rounds):
        same = [each for each in rounds if each.clients == clients]
        middle = statistics.median(each.throughput for each in same)
        first = first or middle
        lines.append(
            f"| {clients} | {middle:.2f} | {middle / first:.0%}".replace("%", " %")
            + f" | {statistics.median(each.answered for each in same):g}"
            f" | {statistics.median(each.refused for each in same):g}"
            f" | {max(each.pss_mb for each in same):.0f} | {max(each.shm_mb for each in same):.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    own, more = split_arguments(list(sys.argv[1:] if arguments is None else arguments))
    parser = own_server_parser("overload", __doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="default: %(default)g")
    options = parser.parse_args(own)
    try:
        cut = prepare_cuts(options.audio, options.engines_dir)[-1][: CUT_S * SAMPLE_RATE]
        with running_server(options.serve.resolve(), more) as server:
            with DiarizationClient(server.url) as client:
                expected = client.diarize(cut, mode="server").to_json()
            rounds = [
                run_round(server, cut, expected, clients, options.seconds)
                for _ in range(options.rounds)
                for clients in CLIENTS
            ]
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    print(table(rounds))
    wrong = [text for each in rounds for text in each.wrong]
    for text in wrong[:5]:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
