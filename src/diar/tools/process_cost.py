"""What processes cost: seconds of CPU, and the most memory that they held at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

MB = 1e6

Processes = Callable[[], Sequence[psutil.Process]]


@dataclass
class Cpu:
    """Seconds of CPU, complete once ``counting_cpu`` is left."""

    seconds: float = 0.0


@dataclass
class Peak:
    """The most memory so far."""

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


def whole_mb(processes: Sequence[psutil.Process]) -> float:
    """What their PSS is on a machine where nobody else has their libraries in memory.

    PSS gives a library's pages in part to whoever else uses them, the measuring process included. Here those
    of each file count once and in full: as many as the process has that holds most of them.
    """
    own, files = 0, dict[str, int]()
    for process in processes:
        try:
            maps = process.memory_maps()
        except psutil.NoSuchProcess:
            continue
        for part in maps:
            if part.path.startswith("["):
                own += part.pss
            else:
                own += part.anonymous  # pages of the file that were written to
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
def watching_memory(
    processes: Processes, look: Callable[[Sequence[psutil.Process]], float], every_s: float
) -> Iterator[Peak]:
    """Take the most that ``look(processes())`` gives inside, looking ``every_s`` seconds after each look.

    Every look takes time for a server: the kernel walks the pages of its processes.
    """
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            peak.mb = max(peak.mb, look(processes()))
            over.wait(every_s)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
        peak.mb = max(peak.mb, look(processes()))
