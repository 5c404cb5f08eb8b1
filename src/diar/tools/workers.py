"""What ``bench`` lets run against each other: processes that diarize, and a server.

A worker is a process that loads its networks, says ``{"load_s"}``, then takes ``{"audio"}`` and answers
``{"wall_s", "cpu_s", "stages", "turns": [[start_s, end_s, speaker], …]}``, a line of JSON each.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil
import soundfile
from diar_client import DiarizationClient

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE
from diar.tools.live_server import RunningServer
from diar.tools.process_cost import counting_cpu, cpu_seconds, family
from diar.turns import Turn


@dataclass(frozen=True)
class Run:
    """One recording, diarized once. Times in seconds, CPU of all processes together."""

    wall_s: float
    cpu_s: float
    stages: dict[str, float] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()


class Contestant(Protocol):
    """Diarizes recordings, again and again. load_s: what is not in any run."""

    name: str
    load_s: float

    def run(self, audio: Path) -> Run:
        """Diarize a wav file; SetupError (E_WORKER) if it cannot."""

    def processes(self) -> list[psutil.Process]:
        """What diarizes."""


class Worker:
    """A contestant in a process of its own."""

    def __init__(self, name: str, process: subprocess.Popen[str], errors: Any) -> None:
        self.name = name
        self._process, self._errors = process, errors
        self.load_s = float(self._answer()["load_s"])

    def run(self, audio: Path) -> Run:
        """See ``Contestant.run``."""
        answer = self.ask({"audio": str(audio)})
        return Run(
            wall_s=answer["wall_s"],
            cpu_s=answer["cpu_s"],
            stages=answer["stages"],
            turns=tuple(_turn(*turn) for turn in answer["turns"]),
        )

    def processes(self) -> list[psutil.Process]:
        """See ``Contestant.processes``."""
        return family(self._process.pid)

    def ask(self, question: dict[str, str]) -> dict[str, Any]:
        """The answer to one line of JSON."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = [text for text in self._errors.read().splitlines() if text.strip()]
            raise SetupError("E_WORKER", f"{self.name} ended: {said[-1] if said else 'without a word'}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def working(name: str, command: Sequence[str | Path]) -> Iterator[Worker]:
    """A worker for as long as it is needed. Raises SetupError (E_WORKER) if it does not load."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield Worker(name, process, errors)
        finally:
            process.kill()


class Served:
    """A contestant behind a server, in one request a recording; protocol: ``grpc`` or ``http``.

    What its processes and this client used counts.
    """

    load_s = 0.0

    def __init__(self, name: str, server: RunningServer, protocol: str = "grpc") -> None:
        self.name = name
        self._server = server
        self._client = DiarizationClient(server.url if protocol == "grpc" else server.http_url)

    def run(self, audio: Path) -> Run:
        """See ``Contestant.run``."""
        samples, _ = soundfile.read(audio, dtype="int16")
        with counting_cpu(self._server.processes) as cpu:
            own, began = own_cpu_s(), time.perf_counter()
            found = self._client.diarize(samples, timings=True, mode="server")
            wall_s, client_s = time.perf_counter() - began, own_cpu_s() - own
        seconds = {stage: value for stage, value in (found.timings or {}).items() if stage != "total"}
        return Run(
            wall_s=wall_s,
            cpu_s=cpu.seconds + client_s,
            stages=seconds | {"to and fro": wall_s - sum(seconds.values())},
            turns=tuple(found.turns),
        )

    def processes(self) -> list[psutil.Process]:
        """See ``Contestant.processes``."""
        return self._server.processes()


def own_cpu_s() -> float:
    """Seconds of CPU that this process has used."""
    return sum(cpu_seconds([psutil.Process()]).values())


def _turn(start_s: float, end_s: float, speaker: object) -> Turn:
    start = round(start_s * SAMPLE_RATE)
    return Turn(start, max(start + 1, round(end_s * SAMPLE_RATE)), str(speaker))
