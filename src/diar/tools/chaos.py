"""Kill and stop parts of a running server at random while clients use it; nothing may be lost or wrong.

Starts a server of its own; options after ``--`` go to scripts/serve. Every few seconds a stub, now and then
tritonserver itself, gets SIGKILL or SIGSTOP, and the time until /ready says 200 again is taken. Meanwhile
clients diarize cuts of a recording over gRPC and HTTP; 5 % of the requests are given up early, 2 % are bad.
Fails if a request got no answer or another result than without disturbance.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
from diar_client import DiarizationClient
from diar_client.decode import decode_file
from diar_client.failures import ServerUnreachable

from diar.errors import Cancelled, DiarError, parse_error
from diar.profile import SAMPLE_RATE
from diar.tools.fetch_sample import fetch_sample
from diar.tools.live_server import RunningServer, running_server

LENGTHS_S = (8, 20, 45)  # of the cuts
ANSWER_S = 180.0  # a request without an answer for so long is lost
HEAL_S = 120.0
CANCELLED_SHARE, BAD_SHARE = 0.05, 0.02
SERVER_EVERY_S = 150.0  # tritonserver itself: more restarts than four in ten minutes are given up
PAUSE_S = (0.5, 4.0)


@dataclass
class Tally:
    """What became of the requests. words: of named errors. heals: seconds until ready, by what was done."""

    sent: int = 0
    right: int = 0
    given_up: int = 0
    words: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    wrong: int = 0
    heals: dict[str, list[float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def run_client(
    url: str,
    http_url: str,
    cuts: Sequence[npt.NDArray[np.int16]],
    answers: Sequence[bytes],
    end: float,
    tally: Tally,
    seed: int,
) -> None:
    """Send one request after the other until ``end``."""
    rng = np.random.default_rng(seed)
    with (
        DiarizationClient(url, timeout_s=ANSWER_S) as patient,
        DiarizationClient(url, timeout_s=0.3) as hasty,
    ):
        while time.monotonic() < end:
            cut = int(rng.integers(len(cuts)))
            kind = rng.random()
            with tally.lock:
                tally.sent += 1
            outcome: Exception | bytes
            try:
                client = hasty if kind < CANCELLED_SHARE else patient
                if CANCELLED_SHARE <= kind < CANCELLED_SHARE + BAD_SHARE:
                    ask_badly(http_url)
                outcome = client.diarize(cuts[cut], mode="server").to_json()
            except Exception as err:
                outcome = err
            count(tally, outcome, answers[cut], hasty=kind < CANCELLED_SHARE)


def ask_badly(http_url: str) -> None:
    """Send a recording without any audio; always raises the error that says so, or that nobody answers."""
    request = urllib.request.Request(f"{http_url}/v2/models/diarize/infer", b'{"inputs": []}')
    try:
        urllib.request.urlopen(request, timeout=ANSWER_S)
    except urllib.error.HTTPError as err:
        message = str(json.load(err)["error"])
        raise parse_error(message) or ServerUnreachable.at(http_url, message) from None
    except urllib.error.URLError as err:
        raise ServerUnreachable.at(http_url, str(err.reason)) from None
    raise ValueError("a recording without audio was answered")


def count(tally: Tally, outcome: Exception | bytes, expected: bytes, *, hasty: bool) -> None:
    """Sort one answer in."""
    with tally.lock:
        if isinstance(outcome, bytes):
            tally.right += outcome == expected
            tally.wrong += outcome != expected
        elif hasty and isinstance(outcome, DiarError):
            tally.given_up += 1
        elif isinstance(outcome, DiarError) and not isinstance(outcome, Cancelled):
            tally.words[outcome.word] += 1
        else:
            tally.lost.append(f"{type(outcome).__name__}: {outcome}"[:300])


def disturb(server: RunningServer, end: float, tally: Tally, rng: np.random.Generator) -> None:
    """Kill or stop something, wait until it is healed, and so on until ``end``."""
    last_server = time.monotonic()
    while time.monotonic() < end:
        processes = [process for process in server.processes() if process.pid != server.pid]
        is_server = time.monotonic() - last_server > SERVER_EVERY_S
        victims = [process for process in processes if _name(process).startswith("tritonserver") == is_server]
        victims = [process for process in victims if is_server or _model(process)]
        if victims:
            victim = victims[rng.integers(len(victims))]
            what = "tritonserver" if is_server else _model(victim)
            last_server = time.monotonic() if is_server else last_server
            is_kill = bool(rng.random() < 0.5)
            try:
                victim.kill() if is_kill else victim.suspend()
            except psutil.NoSuchProcess:
                continue
            key = f"{'kill' if is_kill else 'stop'} {what}"
            tally.heals.setdefault(key, []).append(heal_s(server))
        time.sleep(float(rng.uniform(*PAUSE_S)))


def heal_s(server: RunningServer) -> float:
    """Seconds until the server is ready again; infinity if that takes too long."""
    start = time.monotonic()
    was_down = False
    while time.monotonic() - start < HEAL_S:
        ready = is_ready(server)
        was_down |= not ready
        if ready and (was_down or time.monotonic() - start > 3):
            return time.monotonic() - start if was_down else 0.0
        time.sleep(0.1)
    return float("inf")


def is_ready(server: RunningServer) -> bool:
    """What /ready says."""
    try:
        with urllib.request.urlopen(f"{server.health_url}/ready", timeout=10) as answer:
            return bool(json.load(answer)["ready"])
    except (urllib.error.URLError, OSError):
        return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _model(process: psutil.Process) -> str:
    """The model that a stub runs; "" for another process."""
    try:
        return next((part.split("/")[-3] for part in process.cmdline() if part.endswith("/1/model.py")), "")
    except psutil.NoSuchProcess:
        return ""


def report(tally: Tally, minutes: float) -> bool:
    """Print the figures; whether all is as it must be."""
    seconds = sorted(second for times in tally.heals.values() for second in times)
    print(f"{minutes:g} min, {len(seconds)} disturbances")
    print(f"requests sent                 {tally.sent}")
    print(f"  answered right              {tally.right}")
    print(f"  given up by the client      {tally.given_up}")
    print(f"  answered by a named error   {sum(tally.words.values())}  {dict(tally.words)}")
    print(f"  lost                        {len(tally.lost)}")
    print(f"  wrong                       {tally.wrong}")
    for text in tally.lost[:5]:
        print(f"    {text}")
    if seconds:
        middle = seconds[len(seconds) // 2]
        print(f"seconds until ready again: median {middle:.1f}, longest {seconds[-1]:.1f}")
    for what, times in sorted(tally.heals.items()):
        print(f"  {what:28} {len(times):3} times, longest {max(times):5.1f} s")
    return not tally.lost and not tally.wrong and tally.right > 0 and max(seconds, default=0.0) < HEAL_S


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, more = split_arguments(given)
    parser = own_server_parser("chaos", __doc__)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="N", help="default: %(default)g")
    parser.add_argument("--clients", type=int, default=4, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    options = parser.parse_args(own)
    try:
        cuts = prepare_cuts(options.audio, options.engines_dir)
        with running_server(options.serve.resolve(), more) as server:
            tally = torment(server, cuts, options)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0 if report(tally, options.minutes) else 1


def own_server_parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """What scripts take that send cuts of a recording to a server of their own."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("audio", nargs="?", type=Path, metavar="AUDIO", help="default: a sample conversation")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    return parser


def prepare_cuts(audio: Path | None, engines_dir: Path) -> list[npt.NDArray[np.int16]]:
    """Beginnings of a recording, or of the sample conversation, of LENGTHS_S; repeated if it is too short."""
    samples = decode_file(audio or fetch_sample(engines_dir.resolve())).samples
    samples = np.tile(samples, -(-max(LENGTHS_S) * SAMPLE_RATE // len(samples)))
    pcm = samples if samples.dtype == np.int16 else np.rint(samples * 32767).astype(np.int16)
    return [pcm[: seconds * SAMPLE_RATE] for seconds in LENGTHS_S]


def torment(
    server: RunningServer, cuts: Sequence[npt.NDArray[np.int16]], options: argparse.Namespace
) -> Tally:
    """Have clients and disturbances run beside each other for the time asked for."""
    with DiarizationClient(server.url) as client:
        answers = [client.diarize(cut, mode="server").to_json() for cut in cuts]
    tally, end = Tally(), time.monotonic() + 60 * options.minutes
    urls = [server.url, server.http_url]
    clients = [
        threading.Thread(
            target=run_client,
            args=(urls[number % 2], server.http_url, cuts, answers, end, tally, 1000 * options.seed + number),
        )
        for number in range(options.clients)
    ]
    for thread in clients:
        thread.start()
    disturb(server, end, tally, np.random.default_rng(options.seed))
    for thread in clients:
        thread.join()
    return tally


def split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Arguments before and after ``--``."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
