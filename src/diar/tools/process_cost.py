"""What processes cost: seconds of CPU, and the most memory that they held at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

MB = 1e6
_EVERY_S = 2.0  # every look costs some 20 ms for a server: the kernel walks its processes' pages

Processes = Callable[[], Sequence[psutil.Process]]


@dataclass
class Cost:
    """Of what ran inside ``measuring``. pss: proportional set size, in which shared pages count once."""

    cpu_s: float = 0.0
    peak_pss_mb: float = 0.0
    peak_rss_mb: float = 0.0


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


def memory_mb(processes: Sequence[psutil.Process]) -> tuple[float, float]:
    """PSS and RSS of all of them together."""
    pss = rss = 0
    for process in processes:
        try:
            memory = process.memory_full_info()
        except psutil.NoSuchProcess:
            continue
        pss, rss = pss + memory.pss, rss + memory.rss
    return pss / MB, rss / MB


@contextmanager
def measuring(processes: Processes, every_s: float = _EVERY_S) -> Iterator[Cost]:
    """Measure what ``processes()`` cost while inside; the figures are complete on leaving.

    Memory is looked at every ``every_s`` seconds.
    """
    cost, over = Cost(), threading.Event()

    def look() -> None:
        pss, rss = memory_mb(processes())
        cost.peak_pss_mb = max(cost.peak_pss_mb, pss)
        cost.peak_rss_mb = max(cost.peak_rss_mb, rss)

    def watch() -> None:
        while not over.wait(every_s):
            look()

    before = cpu_seconds(processes())
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield cost
    finally:
        over.set()
        watcher.join()
        after = cpu_seconds(processes())
        cost.cpu_s = sum(seconds - before.get(key, 0.0) for key, seconds in after.items())
        look()
