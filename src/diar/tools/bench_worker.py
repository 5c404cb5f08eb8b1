"""Diarizes recordings in a process of its own, for ``bench``: one line of JSON in, one out, see ``workers``.

The networks are loaded once; what is timed is a recording whose samples are in memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile

from diar.block import BlockRunner
from diar.local import diarize_local
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.stopwatch import Stopwatch


def stages(seconds: dict[str, float], wall_s: float) -> dict[str, float]:
    """Seconds by stage, with what is left of the whole as ``rest``; ``blocks`` is the sum of its stages.

    >>> stages({"blocks": 3.0, "fbank": 1.0, "segmentation": 1.5, "clustering": 0.5}, 3.75)
    {'fbank': 1.0, 'segmentation': 1.5, 'clustering': 0.5, 'rest': 0.75}
    """
    own = {name: value for name, value in seconds.items() if name != "blocks"}
    return own | {"rest": wall_s - sum(own.values())}


def run(profile: Profile, runner: BlockRunner, stopwatch: Stopwatch, audio: Path) -> dict[str, Any]:
    """Diarize one recording, (samples,) 16 kHz mono, and say what it took."""
    samples, _ = soundfile.read(audio, dtype="int16")
    stopwatch.seconds.clear()
    began, used = time.perf_counter(), time.process_time()
    found = diarize_local(samples, profile, runner, stage=stopwatch)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    turns = [[turn.start / SAMPLE_RATE, turn.end / SAMPLE_RATE, turn.speaker] for turn in found.turns]
    return {"wall_s": wall_s, "cpu_s": cpu_s, "stages": stages(stopwatch.seconds, wall_s), "turns": turns}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="bench_worker", description=__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--lane", required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--engines-dir", type=Path, required=True)
    options = parser.parse_args(arguments)
    profile, stopwatch = load_profile(options.profile), Stopwatch()
    began = time.perf_counter()
    runner = BlockRunner(
        profile,
        options.engines_dir / "build",
        segmentation_lane=options.lane,
        embedding_lane=options.lane,
        threads=options.threads,
        stage=stopwatch,
    )
    print(json.dumps({"load_s": time.perf_counter() - began}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(profile, runner, stopwatch, Path(json.loads(line)["audio"]))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
