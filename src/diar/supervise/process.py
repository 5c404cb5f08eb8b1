"""One tritonserver process: started, listened to, ended, and cleaned up after."""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import psutil

SHARED_MEMORY = Path("/dev/shm")
_KEPT_LINES = 2000  # of the log, to find out why a start failed
_STUB_GRACE_S = 2.0  # an idle stub needs this long to notice that its server is gone
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_LIBC = ctypes.CDLL(None)

log = logging.getLogger(__name__)


class TritonServer:
    """A running tritonserver.

    command, environment, folder: what to run, and where; its stubs look for Python modules there as well.
    memory_prefix: how its regions in /dev/shm begin. log: where its
    output goes. Start it from the main thread: the kernel ends it when the thread that started it is gone.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        memory_prefix: str,
        log: TextIO,
    ) -> None:
        self._memory_prefix = memory_prefix
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        become_subreaper()
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in a terminal is for us; we end the server in order
            preexec_fn=_die_with_parent,
        )
        self._reader = threading.Thread(target=self._forward, args=(log,), daemon=True)
        self._reader.start()

    def _forward(self, log: TextIO) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            with suppress(OSError):  # nobody reads our log any more; a server that cannot log would hang
                log.write(line)
                log.flush()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it by force; ``stop`` cleans up."""
        self._process.kill()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def log_lines(self) -> list[str]:
        """The last lines of its output; all of them once it has ended."""
        if self.exit_code is not None:
            self._reader.join(timeout=1.0)
        return list(self._lines)

    def stop(self, timeout_s: float, at_once: Callable[[], bool] = lambda: False) -> None:
        """End it in order, by force after ``timeout_s`` or as soon as ``at_once`` says so; then clean up.

        Running requests are given the server's own exit timeout. Nothing of it is left afterwards: no
        process, no region in /dev/shm.
        """
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        while self.exit_code is None and time.monotonic() < deadline and not at_once():
            time.sleep(0.05)
        if self.exit_code is None:
            self._process.kill()
            self._process.wait()
        end_orphans(_STUB_GRACE_S)
        self._reader.join(timeout=1.0)
        sweep_shared_memory(self._memory_prefix)


def become_subreaper() -> None:
    """Make this process the parent of stubs whose server has died, so that it can find and end them."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(grace_s: float) -> None:
    """Wait for the children that are left (stubs, after their server has ended), then kill them."""
    children = psutil.Process().children(recursive=True)
    _, alive = psutil.wait_procs(children, timeout=grace_s)
    for child in alive:
        log.warning("killing stub %d, which outlived its server", child.pid)
        child.kill()
    psutil.wait_procs(alive, timeout=grace_s)


def sweep_shared_memory(prefix: str, folder: Path = SHARED_MEMORY) -> None:
    """Remove the regions whose names begin with ``prefix``; killed stubs leave theirs behind."""
    for file in folder.glob(f"{prefix}*"):
        file.unlink(missing_ok=True)


def _die_with_parent() -> None:
    """In the child: ask for SIGTERM when the supervisor's thread that started it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
