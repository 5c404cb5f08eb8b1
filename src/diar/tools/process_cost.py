"""What processes cost: seconds of CPU, and the most memory that they held at once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1e6

_STATUS = re.compile(r"^(VmHWM|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)

Processes = Callable[[], Sequence[psutil.Process]]


@dataclass
class Cpu:
    """Seconds of CPU, complete once ``counting_cpu`` is left."""

    seconds: float = 0.0


@dataclass
class Peak:
    """The most PSS so far."""

    mb: float = 0.0


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started; nothing if it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(processes: Sequence[psutil.Process]) -> dict[tuple[int, float], float]:
    """Seconds of CPU that each has used so far, by pid and time of creation."""
    used = {}
    for process in processes:
        try:
            times = process.cpu_times()
            used[process.pid, process.create_time()] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return used


def pss_mb(processes: Sequence[psutil.Process]) -> float:
    """PSS of all of them together: pages that they share count once, those shared with others in part."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / MB


def forget_peaks(processes: Sequence[psutil.Process]) -> None:
    """Let ``peak_mb`` begin anew from what each process holds now (Linux keeps the peak of each, exactly)."""
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")


def peak_mb(processes: Sequence[psutil.Process]) -> float:
    """The most memory that they held, or a little more: each process's own at its peak, and files once.

    PSS gives a library's pages in part to whoever else has them in memory, the measuring process included;
    here they count in full, once for all processes. Peaks of several processes need not be at the same time.
    """
    own, files = 0, dict[str, int]()
    for process in processes:
        try:
            maps = process.memory_maps()
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue
        kib = {key: int(number) for key, number in _STATUS.findall(status)}
        own += 1024 * (kib["VmHWM"] - kib["RssFile"] - kib["RssShmem"])
        for part in maps:
            if not part.path.startswith("["):
                files[part.path] = max(files.get(part.path, 0), part.rss - part.anonymous)
    return (own + sum(files.values())) / MB


@contextmanager
def counting_cpu(processes: Processes) -> Iterator[Cpu]:
    """Count the seconds of CPU that ``processes()`` use inside."""
    cpu, before = Cpu(), cpu_seconds(processes())
    try:
        yield cpu
    finally:
        after = cpu_seconds(processes())
        cpu.seconds = sum(seconds - before.get(key, 0.0) for key, seconds in after.items())


@contextmanager
def watching_pss(processes: Processes, every_s: float) -> Iterator[Peak]:
    """Take the most PSS of ``processes()`` inside, looking ``every_s`` seconds after each look.

    Every look takes time for a server: the kernel walks the pages of its processes.
    """
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            peak.mb = max(peak.mb, pss_mb(processes()))
            over.wait(every_s)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
        peak.mb = max(peak.mb, pss_mb(processes()))
