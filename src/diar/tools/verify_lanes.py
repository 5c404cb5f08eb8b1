"""Run every lane and precision over the same recordings and compare them with the exact lane.

Prints a Markdown table; exit code 1 if a lane is beyond the limits that the profile sets for it. Recordings
with an <id>.rttm beside them give DER as well.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diar_client.decode import Pcm, decode_file

from diar.artifacts import replacing
from diar.block import BlockRunner
from diar.errors import DiarError, SetupError
from diar.network_files import has_module
from diar.options import Options
from diar.pipeline import BlockResult, Recording
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.spans import plan_blocks, take_span
from diar.tools.der import Errors, read_rttm
from diar.tools.lane_comparison import Comparison, faults, markdown, pooled_der
from diar.tools.scores import score_turns
from diar.tools.utterances import AUDIO_SUFFIXES

LANES = {
    "cpu": ("exact", "openvino:fp32", "openvino:bf16"),
    "cuda": ("exact", "tensorrt:fp32", "tensorrt:fp16"),
}
REPEATS = 3
MakeRunner = Callable[[str], BlockRunner]  # by the lane's name


class Contender:
    """One lane and what was found of it. name: of the lane that really runs."""

    def __init__(self, runner: BlockRunner, profile: Profile) -> None:
        self.runner = runner
        self.name = runner.lanes[0]
        self.comparison = Comparison(profile.clustering.min_clean_s)
        self.errors: list[tuple[Errors, ...]] = []
        self.ms_per_block = 0.0

    def row(self) -> dict[str, Any]:
        """Its entry in the report."""
        return {
            "lane": self.name,
            **self.comparison.figures(),
            "der": pooled_der(self.errors),
            "ms_per_block": self.ms_per_block,
        }


def open_lanes(
    names: Sequence[str], make: MakeRunner, profile: Profile
) -> tuple[list[Contender], dict[str, str]]:
    """The lanes that run here, and why the others do not."""
    contenders, missing = [], {}
    for name in names:
        try:
            contenders.append(Contender(make(name), profile))
        except (SetupError, ImportError) as err:
            missing[name] = err.text if isinstance(err, SetupError) else str(err)
    return contenders, missing


def compare_recording(contenders: Sequence[Contender], profile: Profile, audio: Path) -> Pcm:
    """Run one recording through all lanes, block by block; the first lane is the reference."""
    samples = decode_file(audio).samples
    recordings = [Recording(profile) for _ in contenders]
    for block in plan_blocks(len(samples), profile.geometry):
        span = take_span(samples, block)
        results: list[BlockResult] = [contender.runner.run(span) for contender in contenders]
        for contender, recording, result in zip(contenders, recordings, results, strict=True):
            contender.comparison.add(result, results[0])
            recording.add(block, result)
    rttm = audio.with_suffix(".rttm")
    if rttm.is_file():
        reference = read_rttm(rttm)
        for contender, recording in zip(contenders, recordings, strict=True):
            turns = recording.finish(len(samples), Options()).turns
            contender.errors.append(score_turns(reference, turns, len(samples)))
    return samples


def time_block(runner: BlockRunner, samples: Pcm, profile: Profile) -> float:
    """Milliseconds that a full block of these samples, repeated as need be, takes: the least of REPEATS."""
    span = np.resize(samples, profile.geometry.span_samples()).astype(np.float32) / np.float32(32_768)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        runner.run(span)
        times.append(time.perf_counter() - began)
    return 1000 * min(times)


def verify_lanes(
    profile: Profile,
    files: Sequence[Path],
    names: Sequence[str],
    make: MakeRunner,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Compare the lanes over the files; the report's figures. SetupError (E_LANE) if fewer than two run."""
    contenders, missing = open_lanes(names, make, profile)
    if len(contenders) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise SetupError("E_LANE", f"expected at least two lanes that run here ({reasons})")
    num_samples = 0
    for index, file in enumerate(files, 1):
        began = time.perf_counter()
        samples = compare_recording(contenders, profile, file)
        num_samples += len(samples)
        progress(f"{index}/{len(files)} {file.name}: {time.perf_counter() - began:.0f} s")
    for contender in contenders:
        contender.ms_per_block = time_block(contender.runner, samples, profile)
        contender.runner.close()
    rows = [contender.row() for contender in contenders]
    rows[0]["verdict"] = "reference"
    for row in rows[1:]:
        limits = profile.limits.get(row["lane"])
        beyond = faults(row, rows[0]["der"], limits)
        row["verdict"] = "beyond limits: " + "; ".join(beyond) if beyond else "ok" if limits else "no limits"
        row["passed"] = not beyond
    return {
        "profile": profile.name,
        "recordings": len(files),
        "minutes": num_samples / SAMPLE_RATE / 60,
        "least_speech_s": profile.clustering.min_clean_s,
        "windows_per_block": profile.geometry.windows_per_block,
        "repeats": REPEATS,
        "lanes": rows,
        "not_available": missing,
    }


def describe_device(device: str) -> str:
    """The GPU's or processor's name."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.processor() or platform.machine()


def _versions() -> str:
    known = []
    for package in ("torch", "openvino", "tensorrt-cu12-bindings", "tensorrt-rtx-cu12-bindings"):
        try:
            known.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(known)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verify_lanes", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="AUDIO_DIR", help="of .flac and .wav files")
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--device", help="cpu or cuda:<i>; default: the first GPU if there is one")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="on a CPU; 0: all cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    engines_dir = options.engines_dir.resolve() / "build"
    try:
        profile = load_profile(options.profile)
        files = sorted(file for file in options.folder.glob("*") if file.suffix.lower() in AUDIO_SUFFIXES)
        if not files:
            raise SetupError("E_FILE", f"no .flac or .wav in {options.folder}")
        names: Sequence[str] = LANES["cuda" if device.startswith("cuda") else "cpu"]
        if not has_module(profile, engines_dir):  # an ONNX file alone: the next lane is the reference
            names = names[1:]

        def make(lane: str) -> BlockRunner:
            return BlockRunner(
                profile,
                engines_dir,
                device,
                segmentation_lane=lane,
                embedding_lane=lane,
                threads=options.threads,
            )

        document = verify_lanes(profile, files, names, make, lambda line: print(line, file=sys.stderr))
        document |= {
            "date": datetime.now(timezone.utc).date().isoformat(),
            "device": describe_device(device),
            "threads": options.threads,
            "versions": _versions(),
        }
        text = markdown(document)
        for file, content in [(options.json, json.dumps(document, indent=1)), (options.markdown, text)]:
            if file:
                with replacing(file) as draft:
                    draft.write_text(content + "\n", encoding="utf-8")
    except (DiarError, OSError) as err:
        print(f"error: {err.text if isinstance(err, DiarError) else err}", file=sys.stderr)
        return 1
    print(text)
    return 0 if all(row.get("passed", True) for row in document["lanes"]) else 1


if __name__ == "__main__":
    sys.exit(main())
