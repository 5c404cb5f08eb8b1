"""How much memory the server takes: a long recording in one request, then the same recording many times.

Prints each region in /dev/shm against its limit (the request's bytes + one growth step + 32 MB), and the
PSS of all server processes after each repeat; fails if a region is over its limit or the PSS still grows
after the third repeat.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from diar_client import DiarizationClient

from diar.errors import DiarError
from diar.tools.conversation import Scenario
from diar.tools.live_server import RunningServer, running_server
from diar.tools.process_cost import pss_mb
from diar.tools.simulate import Pcm, simulate

MB = 1_000_000
GROWTH_STEP = 16_777_216  # shm_growth_bytes of the models that take recordings
SLACK = 32 * MB
STEADY_AFTER = 3  # repeats in which caches may still fill
TOLERANCE_MB = 16.0  # what the PSS may differ by between repeats


def check_regions(server: RunningServer, client: DiarizationClient, samples: Pcm) -> bool:
    """Send ``samples`` in one request and compare every region with its limit."""
    client.diarize(samples)
    limit = samples.nbytes + GROWTH_STEP + SLACK
    print(f"request of {samples.nbytes / MB:.1f} MB; limit of a region {limit / MB:.1f} MB")
    regions = server.regions()
    for name, size in regions.items():
        print(f"  {name[:40]:40} {size / MB:8.1f} MB")
    return all(size <= limit for size in regions.values())


def check_repeats(server: RunningServer, client: DiarizationClient, samples: Pcm, repeats: int) -> bool:
    """Send ``samples`` again and again and compare the PSS of the later repeats."""
    sizes = []
    for repeat in range(1, repeats + 1):
        client.diarize(samples)
        sizes.append(pss_mb(server.processes()))
        print(f"repeat {repeat:3}: PSS {sizes[-1]:8.1f} MB", flush=True)
    growth = max(sizes[STEADY_AFTER:]) - sizes[STEADY_AFTER - 1]
    print(f"growth after repeat {STEADY_AFTER}: {growth:.1f} MB (limit {TOLERANCE_MB:.1f} MB)")
    return growth <= TOLERANCE_MB


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    parser.add_argument("speakers", type=Path, metavar="SPEAKERS_DIR", help="see scripts/simulate")
    parser.add_argument("--long-s", type=float, default=3600.0, metavar="S", help="default: %(default)g")
    parser.add_argument("--short-s", type=float, default=300.0, metavar="S", help="default: %(default)g")
    parser.add_argument("--repeats", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    options = parser.parse_args(arguments)
    if options.repeats <= STEADY_AFTER:
        parser.error(f"--repeats: got {options.repeats}, expected more than {STEADY_AFTER}")
    try:
        long = simulate(options.speakers, Scenario(num_speakers=4, length_s=options.long_s)).samples()
        short = simulate(options.speakers, Scenario(num_speakers=3, length_s=options.short_s)).samples()
        with running_server(options.serve.resolve()) as server, DiarizationClient(server.url) as client:
            print(f"PSS before any request {pss_mb(server.processes()):.1f} MB")
            repeats = check_repeats(server, client, short, options.repeats)
            regions = check_regions(server, client, long)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0 if repeats and regions else 1


if __name__ == "__main__":
    sys.exit(main())
