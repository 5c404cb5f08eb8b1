"""What ``bench`` measures: our own ways to diarize, on which recordings, on which machine."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import soundfile
from diar_client.decode import decode_file

from diar.profile import SAMPLE_RATE
from diar.tools.conversation import Scenario
from diar.tools.der import read_rttm
from diar.tools.evaluate import find_pairs
from diar.tools.live_server import RunningServer, running_server
from diar.tools.simulate import simulate, write_conversation
from diar.tools.verify_lanes import describe_device
from diar.tools.workers import Contestant, Served, working
from diar.turns import Turn

PROFILES = ("pyannote_campplus", "pyannote_campplus_two_tier")
LANES = ("openvino:fp32", "openvino:bf16", "exact", "auto")
QUIET = ("--probe-interval", "3600")  # the supervisor's probes are not to be measured
_SPEAKERS = 4


@dataclass(frozen=True)
class Material:
    """A recording as a wav file, 16 kHz mono. reference: None if nobody knows."""

    name: str
    audio: Path
    num_samples: int
    reference: tuple[Turn, ...] | None

    def description(self) -> dict[str, Any]:
        """How the report names it."""
        return {"name": self.name, "seconds": self.num_samples / SAMPLE_RATE}


def material(audio: Path | None, speakers: Path | None, length_s: float, folder: Path) -> Material:
    """The given recording, or a simulated conversation, written to ``folder``."""
    if audio:
        return _as_wav(audio, folder)
    assert speakers
    wav = folder / "conversation.wav"
    conversation = simulate(speakers, Scenario(num_speakers=_SPEAKERS, length_s=length_s))
    write_conversation(conversation, wav)
    name = f"simulated conversation of {_SPEAKERS}"
    return Material(name, wav, conversation.scenario.num_samples, conversation.turns)


def folder_material(source: Path, folder: Path) -> list[Material]:
    """The labelled recordings of a folder; SetupError (E_FILE) if there are none."""
    return [_as_wav(audio, folder) for audio, _ in find_pairs(source)]


def _as_wav(audio: Path, folder: Path) -> Material:
    samples, rttm = decode_file(audio).samples, audio.with_suffix(".rttm")
    wav = folder / f"{audio.stem}.wav"
    soundfile.write(wav, samples, SAMPLE_RATE, subtype="PCM_16")
    return Material(audio.stem, wav, len(samples), tuple(read_rttm(rttm)) if rttm.is_file() else None)


@dataclass(frozen=True)
class Ours:
    """One of our ways: a profile in a lane, in a process or behind a server."""

    profile: str
    lane: str
    way: str
    threads: int = 0
    replicas: int = 1

    @classmethod
    def all(cls, options: argparse.Namespace) -> list[Ours]:
        """All that the command line asks for."""
        return [
            cls(profile, lane, way, options.threads, options.replicas)
            for profile in options.profiles
            for lane in options.lanes
            for way in options.ways
        ]

    @property
    def name(self) -> str:
        """As the table shows it."""
        replicas = f" ×{self.replicas}" if self.way != "process" and self.replicas > 1 else ""
        return f"{Path(self.profile).stem} {self.lane.removeprefix('openvino:')} {self.way}{replicas}"

    @contextmanager
    def opened(self, serve: Path, engines_dir: Path) -> Iterator[Contestant]:
        """It, ready to run, for as long as it is needed."""
        if self.way == "process":
            arguments = ["--profile", self.profile, "--lane", self.lane]
            arguments += ["--threads", str(self.threads), "--engines-dir", str(engines_dir)]
            command = [sys.executable, "-m", "diar.tools.bench_worker", *arguments]
            with working(self.name, command) as worker:
                yield worker
        else:
            with self.serving(serve) as server:
                yield Served(self.name, server, self.way)

    @contextmanager
    def serving(self, serve: Path) -> Iterator[RunningServer]:
        """A server of this profile and lane."""
        lane = () if self.lane == "auto" else ("--lane", self.lane)
        replicas = ("--replicas", str(self.replicas), "--profile", self.profile, *lane)
        with running_server(serve, [*replicas, *QUIET]) as server:
            yield server


def clean_up_when_told_to_stop() -> None:
    """Let SIGTERM end this process as an exception does, so that the servers it started end, too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def machine() -> str:
    """The processor, and what of it matters here."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        flags = ""
    has = [name for flag, name in (("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16")) if flag in flags]
    return f"{describe_device('cpu')} with {' and '.join(has) or 'neither AMX nor AVX512-BF16'}"


def versions() -> str:
    """Of the packages that do the work."""
    return ", ".join(f"{package} {metadata.version(package)}" for package in ("torch", "openvino"))


def our_commit(engines_dir: Path) -> str:
    """The commit of the checkout; ``unknown`` outside one."""
    command = ["git", "-C", str(engines_dir.parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
