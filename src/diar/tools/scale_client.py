"""Sends recordings to a server from a process of its own, for ``scale``: one line of JSON in, one out.

See ``workers``; ``{"audio", "mode"}`` names the recording and the client's mode. The answer has the most
memory that this process ever held, in MB, with the samples in it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile
from diar_client import DiarizationClient


def run(client: DiarizationClient, audio: Path, mode: Any) -> dict[str, Any]:
    """Diarize one recording, (samples,) 16 kHz mono, and say what it took."""
    samples, _ = soundfile.read(audio, dtype="int16")
    began, used = time.perf_counter(), time.process_time()
    found = client.diarize(samples, mode=mode, timings=True)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    seconds = {stage: value for stage, value in (found.timings or {}).items() if stage != "total"}
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "stages": seconds | {"to and fro": wall_s - sum(seconds.values())},
        "speakers": len(found.speakers),
        "turns": len(found.turns),
        "peak_rss_mb": peak_rss_mb(),
    }


def peak_rss_mb() -> float:
    """The most memory that this process held so far (not ru_maxrss, which begins with its parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line (the server's address); returns the exit status."""
    (url,) = sys.argv[1:] if arguments is None else arguments
    with DiarizationClient(url, timeout_s=None) as client:
        print(json.dumps({"load_s": 0.0}), flush=True)
        for line in sys.stdin:
            wish = json.loads(line)
            print(json.dumps(run(client, Path(wish["audio"]), wish["mode"])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
