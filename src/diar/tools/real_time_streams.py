"""How many live recordings this machine holds: one after the other more of them at once, in real time.

Each plays the file from a place of its own, a piece every step. A number of them is held if 95 % of the
pieces are answered in time after their last sample was spoken, and none is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from diar_client import AsyncDiarizationClient, Patience
from diar_client.decode import Pcm, decode_file

from diar.errors import DiarError
from diar.profile import SAMPLE_RATE
from diar.tools.live_server import running_server

IN_TIME_SHARE = 0.95
AT_ONCE = Patience(retries=0)
STREAMS_OF_SERVER = 512


@dataclass(frozen=True)
class Listening:
    """How streams are played. seconds: for how long. step: seconds of a piece. latency: of the live view."""

    seconds: float
    step: float
    latency: float


async def play(url: str, samples: Pcm, how: Listening) -> list[float]:
    """Play one live recording in real time; seconds from the end of each piece to its answer."""
    length = round(how.step * SAMPLE_RATE)
    delays = []
    async with AsyncDiarizationClient(url, patience=AT_ONCE) as client:
        stream = client.stream(latency=how.latency, step=how.step)
        spoken = time.monotonic()
        for index in range(int(how.seconds / how.step)):
            spoken += how.step
            await asyncio.sleep(spoken - time.monotonic())
            await stream.push(np.take(samples, range(index * length, (index + 1) * length), mode="wrap"))
            delays.append(time.monotonic() - spoken)
        await stream.finish()
    return delays


async def play_many(url: str, samples: Pcm, how: Listening, count: int) -> list[float]:
    """Play ``count`` of them at once, from different places, their pieces at different times."""

    async def later(index: int) -> list[float]:
        await asyncio.sleep(how.step * index / count)
        return await play(url, np.roll(samples, -len(samples) * index // count), how)

    delays = await asyncio.gather(*(later(index) for index in range(count)))
    return [delay for each in delays for delay in each]


def most_held(holds: Callable[[int], bool], most: int) -> int:
    """The greatest number up to ``most`` that is held, if every smaller one is: doubled, then bisected.

    >>> [most_held(lambda count: count <= limit, 64) for limit in (0, 1, 5, 63, 64, 99)]
    [0, 1, 5, 63, 64, 64]
    """
    held, over = 0, most + 1
    while held + 1 < over:
        count = min(2 * held or 1, most) if over > most else (held + over) // 2
        if holds(count):
            held = count
        else:
            over = count
    return held


def holds(url: str, samples: Pcm, how: Listening, within_s: float, count: int) -> bool:
    """Try ``count`` streams and print what came of it."""
    try:
        delays = np.array(asyncio.run(play_many(url, samples, how, count)))
    except DiarError as err:
        print(f"{count:4} streams: {err}", flush=True)
        return False
    share = float((delays <= within_s).mean())
    median, most_of_them = np.quantile(delays, [0.5, 0.95])
    print(
        f"{count:4} streams: answers after {median:.3f} s (median), {most_of_them:.3f} s (95 %),"
        f" {delays.max():.3f} s (all); {100 * share:.1f} % within {within_s:g} s",
        flush=True,
    )
    return share >= IN_TIME_SHARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="streams", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a recording with speech")
    parser.add_argument("--url", help="a server that runs already; otherwise one is started")
    parser.add_argument("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each try")
    parser.add_argument("--step", type=float, default=1.0, metavar="S")
    parser.add_argument("--latency", type=float, default=2.0, metavar="S")
    parser.add_argument("--within", type=float, default=1.0, metavar="S", help="what is in time")
    parser.add_argument("--most", type=int, default=64, metavar="N")
    options = parser.parse_args(arguments)
    how = Listening(options.seconds, options.step, options.latency)
    try:
        samples = decode_file(options.file).samples
        with ExitStack() as stack:
            room = ["--streams", str(STREAMS_OF_SERVER)]
            url = options.url or stack.enter_context(running_server(options.serve, room)).url
            found = most_held(lambda count: holds(url, samples, how, options.within, count), options.most)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    print(f"this machine holds {found} live recordings at once (step {how.step:g} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
