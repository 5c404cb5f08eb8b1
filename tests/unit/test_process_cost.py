"""What processes cost: CPU of a family, memory at its peak."""

import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from diar.tools.process_cost import (
    counting_cpu,
    cpu_seconds,
    family,
    forget_peaks,
    peak_mb,
    pss_mb,
    watching_pss,
)

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def test_costs_are_of_a_process_and_its_children():
    own = family(psutil.Process().pid)
    assert own[0].pid == psutil.Process().pid
    with counting_cpu(lambda: own[:1]) as cpu:
        before = cpu_seconds(own[:1])
        while sum(cpu_seconds(own[:1]).values()) - sum(before.values()) < 0.05:
            np.ones(100_000).sum()
    assert cpu.seconds >= 0.05
    assert family(2**22 + 1) == []


def test_memory_that_others_have_too_counts_in_full_and_once(tmp_path):
    """Two processes and this one have the same 64 MB of a file in memory: PSS gives each a third."""
    library = tmp_path / "library"
    library.write_bytes(bytes(64_000_000))
    code = f"import numpy as np; m = np.memmap({str(library)!r}, mode='r'); m.sum(); print(); input()"
    here = np.memmap(library, mode="r")
    here.sum()
    two = [subprocess.Popen([sys.executable, "-c", code], **PIPES) for _ in range(2)]
    try:
        for process in two:
            process.stdout.readline()
        processes = [psutil.Process(process.pid) for process in two]
        assert 20 < peak_mb(processes) - pss_mb(processes) < 80
        assert 64 < peak_mb(processes) < peak_mb(processes[:1]) + peak_mb(processes[1:]) - 64
    finally:
        for process in two:
            process.communicate("\n")


# holds 80 MB for as long as it takes to answer a line, or until the next one
BALLOON = """
import numpy as np
print(flush=True)
for line in iter(input, "end"):
    held = np.ones(10_000_000)
    print(flush=True)
    if line == "hold":
        input()
    del held
    print(flush=True)
"""


@pytest.fixture
def balloon():
    with subprocess.Popen([sys.executable, "-c", BALLOON], bufsize=1, **PIPES) as process:
        process.stdout.readline()
        yield process, [psutil.Process(process.pid)]
        process.communicate("end\n", timeout=60)


def test_a_peak_is_seen_though_it_is_given_back_and_forgotten(balloon):
    process, own = balloon
    forget_peaks(own)
    before = peak_mb(own)
    process.stdin.write("blow\n")
    process.stdout.readline(), process.stdout.readline()
    assert before + 70 < peak_mb(own) < before + 100
    forget_peaks(own)
    assert peak_mb(own) < before + 20


def test_the_pss_is_watched(balloon):
    process, own = balloon
    before = pss_mb(own)
    with watching_pss(lambda: own, 0.01) as peak:
        process.stdin.write("hold\n")
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while peak.mb < before + 70 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.stdin.write("\n")
        process.stdout.readline()
    assert before + 70 < peak.mb < before + 100
