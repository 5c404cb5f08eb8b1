"""Check a GPU in one command: the lanes against each other and the CPU, streams, memory, timings; as JSON.

Needs torch >= 2.1 and the weights (scripts/fetch_weights) and takes a few minutes. TensorRT lanes are checked
where TensorRT and plans are there, and reported as skipped, with the reason, where they are not.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import traceback
import wave
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.backends import cudnn

from diar.artifacts import replacing
from diar.errors import DiarError
from diar.lanes.tensorrt import host_of
from diar.lanes.tensorrt_module import installed_version
from diar.profile import SAMPLE_RATE, load_profile
from diar.tools.gpu_checks import CHECKS, Bench, Check, CheckFailed, CheckSkipped, Figures
from diar.tools.gpu_timings import lane_timings, recording_timings

ALL_CHECKS: list[Check] = [*CHECKS, lane_timings, recording_timings]


def run_checks(bench: Bench, checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Make the checks one after the other; one entry for each, whatever happens in it."""
    entries = []
    for check in checks:
        begin = time.monotonic()
        figures: Figures = {}
        why = ""
        try:
            figures, outcome = check(bench), "passed"
        except CheckSkipped as err:
            outcome, why = "skipped", str(err)
        except CheckFailed as err:
            outcome, why = "failed", str(err)
        except DiarError as err:
            outcome, why = "failed", f"{err.word}: {err.text}"
        except Exception as err:
            traceback.print_exc()
            outcome, why = "failed", f"{type(err).__name__}: {err}"
        seconds = round(time.monotonic() - begin, 1)
        entries.append({"check": check.__name__, "outcome": outcome, "seconds": seconds, "figures": figures})
        if why:
            entries[-1]["why"] = why
        print(f"{outcome:7} {check.__name__} ({seconds} s){': ' + why if why else ''}", flush=True)
    return entries


def describe_machine(device: torch.device) -> dict[str, str | None]:
    """GPU, driver and versions; None for what this machine does not have."""
    has_gpu = device.type == "cuda"
    host = host_of(device) if has_gpu else None
    return {
        "gpu": host.gpu if host else None,
        "capability": host.capability if host else None,
        "driver": _first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cuda": torch.version.cuda,
        "cudnn": str(cudnn.version()) if has_gpu else None,  # type: ignore[no-untyped-call]
        "tensorrt": installed_version("tensorrt"),
        "tensorrt_rtx": installed_version("tensorrt_rtx"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "commit": _first_line("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"),
    }


def load_samples(path: Path) -> tuple[npt.NDArray[np.float32], str]:
    """Samples of a 16 kHz mono WAV file of 16 bits, and their name; made up ones if there is no such file."""
    if not path.is_file():
        return voices(60 * SAMPLE_RATE), "two made-up voices"
    with wave.open(str(path)) as file:
        form = (file.getframerate(), file.getnchannels(), file.getsampwidth())
        if form != (SAMPLE_RATE, 1, 2):
            raise ValueError(f"{path} has (rate, channels, bytes) {form}, expected ({SAMPLE_RATE}, 1, 2)")
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return samples.astype(np.float32) / 32768, path.name


def voices(num_samples: int) -> npt.NDArray[np.float32]:
    """Two made-up voices that take turns: harmonics of 120 and 210 Hz under formants, in syllables."""
    seconds = np.arange(num_samples) / SAMPLE_RATE
    sound = np.random.default_rng(0).normal(0, 1e-3, num_samples)
    for index, (pitch_hz, formants_hz) in enumerate([(120, (700, 1_200, 2_600)), (210, (400, 2_000, 2_900))]):
        glide = pitch_hz * (seconds + 0.02 * np.sin(2 * np.pi * 0.7 * seconds))
        syllables = np.clip(np.sin(2 * np.pi * (3.5 + index) * seconds), 0, None)
        turn = (seconds // 4 % 2 == index) | (seconds % 10 > 9)
        for harmonic in range(1, 3_600 // pitch_hz):
            gain = sum(np.exp(-(((harmonic * pitch_hz - formant) / 250) ** 2)) for formant in formants_hz)
            sound += 0.15 * turn * syllables * (gain + 0.05) * np.sin(2 * np.pi * harmonic * glide)
    scaled: npt.NDArray[np.float32] = (0.5 * sound / np.abs(sound).max()).astype(np.float32)
    return scaled


def _first_line(*command: str) -> str | None:
    """What a command prints first, None if it cannot be run."""
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return printed.partition("\n")[0] or None


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 1 if a check failed or there is no GPU."""
    names = [check.__name__ for check in ALL_CHECKS]
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--device", default="cuda:0", help="default: %(default)s; cpu tries what it can")
    parser.add_argument("--audio", type=Path, help="16 kHz mono WAV file; default: the sample, or made up")
    parser.add_argument("--only", choices=names, action="append", help="may be given several times")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="default: %(default)s")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("error: PyTorch finds no CUDA device here; --device cpu tries what it can", file=sys.stderr)
        return 1
    folder = options.engines_dir.resolve() / "build"
    try:
        profile = load_profile(options.profile)
        samples, audio = load_samples(options.audio or folder / "sample" / "sample.wav")
    except (DiarError, ValueError, OSError, wave.Error) as err:
        print(f"error: {err.text if isinstance(err, DiarError) else err}", file=sys.stderr)
        return 1
    begin = time.monotonic()
    checks = [check for check in ALL_CHECKS if not options.only or check.__name__ in options.only]
    entries = run_checks(Bench(profile, folder, device, samples), checks)
    report = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(device),
        "profile": profile.name,
        "audio": audio,
        "seconds": round(time.monotonic() - begin, 1),
        "checks": entries,
    }
    with replacing(options.out.resolve()) as draft:
        draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {options.out}")
    return int(any(entry["outcome"] == "failed" for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
