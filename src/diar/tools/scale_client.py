"""Sends recordings to a server from a process of its own, for ``scale``: one line of JSON in, one out.

See ``workers``; ``{"audio", "mode"}`` names the recording and the client's mode, or "stream" for a live one
that comes as fast as it is taken. The answer has the most memory that this process ever held, in MB, with the
samples in it, and a digest of RESULT.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import soundfile
from diar_client import AsyncDiarizationClient
from diar_client.decode import Pcm

from diar.options import Options
from diar.profile import SAMPLE_RATE
from diar.result import Diarization

PIECE_SAMPLES = 20 * SAMPLE_RATE


async def run(url: str, audio: Path, mode: Any) -> dict[str, Any]:
    """Diarize one recording, (samples,) 16 kHz mono, and say what it took."""
    began = used = 0.0

    async def load() -> Pcm:
        nonlocal began, used
        samples: Pcm = soundfile.read(audio, dtype="int16")[0]
        began, used = time.perf_counter(), time.process_time()
        return samples

    async with AsyncDiarizationClient(url, timeout_s=None) as client:
        if mode == "stream":
            began, used = time.perf_counter(), time.process_time()
            found = await listen(client, audio)
        else:  # the client gives the samples up when it needs them no more: nobody else may hold them
            found = await client.diarize_loaded(load, Options(timings=True), mode, None, lambda length: None)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    seconds = {stage: value for stage, value in (found.timings or {}).items() if stage != "total"}
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "stages": seconds | {"to and fro": wall_s - sum(seconds.values())},
        "speakers": len(found.speakers),
        "turns": len(found.turns),
        "last_sample": max((turn.end for turn in found.turns), default=0),
        "result_sha256": sha256(replace(found, timings=None).to_json()).hexdigest(),
        "peak_rss_mb": peak_rss_mb(),
    }


async def listen(client: AsyncDiarizationClient, audio: Path) -> Diarization:
    """Send a recording in pieces, as one that is being made."""
    async with client.stream(latency=5.0, step=5.0, timings=True) as stream:
        with soundfile.SoundFile(audio) as file:
            for piece in file.blocks(PIECE_SAMPLES, dtype="int16"):
                await stream.push(piece)
    return stream.result


def peak_rss_mb() -> float:
    """The most memory that this process held so far (not ru_maxrss, which begins with its parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line (the server's address); returns the exit status."""
    (url,) = sys.argv[1:] if arguments is None else arguments
    print(json.dumps({"load_s": 0.0}), flush=True)
    for line in sys.stdin:
        wish = json.loads(line)
        print(json.dumps(asyncio.run(run(url, Path(wish["audio"]), wish["mode"]))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
