"""The stubs of a model: processes of tritonserver's, watched and killed by the supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

State = Literal["running", "stopped", "dead"]
LOAD_ERROR_S = 5.0  # a stub that could not load its model has ended; so long, and Triton has said why
_STUB_NAME = "triton_python_b"  # the kernel keeps 15 characters of it
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stub:
    """One process. started: in clock ticks since boot; tells it from a later one of the same id."""

    pid: int
    started: int

    @property
    def state(self) -> State:
        """``stopped``: by SIGSTOP; one that resumes after a failed request takes tritonserver with it."""
        fields = _stat(self.pid)
        if fields is None or int(fields[19]) != self.started or fields[0] in ("Z", "X"):
            return "dead"
        return "stopped" if fields[0] == "T" else "running"

    @property
    def cpu_s(self) -> float:
        """CPU time that it has used."""
        fields = _stat(self.pid)
        return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def kill(self) -> None:
        """SIGKILL it, unless it is dead already."""
        if self.state != "dead":
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def find_stubs(server_pid: int, model: str) -> list[Stub]:
    """The stubs of ``model`` that are alive: children of tritonserver that name its model.py."""
    stubs = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(server_pid).children():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                fields = _stat(child.pid)
                if names_model(child.cmdline(), model) and fields is not None and fields[0] not in "ZX":
                    stubs.append(Stub(child.pid, int(fields[19])))
    return stubs


def has_dead_stub(server_pid: int) -> bool:
    """Whether a stub has ended and tritonserver has not noticed yet."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(server_pid).children():
            with suppress(psutil.NoSuchProcess):
                if child.status() == psutil.STATUS_ZOMBIE and child.name().startswith(_STUB_NAME):
                    return True
    return False


def names_model(command: Sequence[str], model: str) -> bool:
    """Whether a stub's command line is that of ``model``.

    >>> names_model(["/opt/stub", "/repository/diarize/1/model.py", "diar_1_x"], "diarize")
    True
    >>> names_model(["/opt/stub", "/repository/diarize_file/1/model.py", "diar_1_x"], "diarize")
    False
    """
    return any(f"/{model}/1/model.py" in part for part in command)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by SIGSTOP."""
    fields = _stat(pid)
    return fields is not None and fields[0] == "T"


def _stat(pid: int) -> list[str] | None:
    """/proc/<pid>/stat from the state on, which is field 3 in proc(5); None if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
