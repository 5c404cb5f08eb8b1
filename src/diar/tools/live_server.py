"""A server of one's own, for as long as a script needs it."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

from diar.errors import SetupError

SHARED_MEMORY = Path("/dev/shm")
_STOP_LIMIT_S = 60


@dataclass(frozen=True)
class RunningServer:
    """Where the server listens, and its supervisor's process id."""

    http_port: int
    grpc_port: int
    pid: int
    health_port: int = 0

    @property
    def url(self) -> str:
        """Address for gRPC."""
        return f"grpc://127.0.0.1:{self.grpc_port}"

    @property
    def http_url(self) -> str:
        """Address for HTTP."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def health_url(self) -> str:
        """Address of the supervisor's own pages."""
        return f"http://127.0.0.1:{self.health_port}"

    def processes(self) -> list[psutil.Process]:
        """The supervisor, tritonserver and its stubs."""
        supervisor = psutil.Process(self.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def regions(self) -> dict[str, int]:
        """Its files in /dev/shm: name -> bytes."""
        prefix = f"diar_{self.http_port}_"
        return {file.name: file.stat().st_size for file in sorted(SHARED_MEMORY.glob(f"{prefix}*"))}


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody listens on at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


@contextmanager
def running_server(serve: Path, options: Sequence[str] = ()) -> Iterator[RunningServer]:
    """Run ``scripts/serve`` with more options on free ports while inside.

    Raises SetupError (E_SERVER) with what the server said if it does not get ready.
    """
    numbers = dict(zip(("http", "grpc", "metrics", "health"), free_ports(4), strict=True))
    ports = [f"--{name}-port={port}" for name, port in numbers.items()]
    with (
        tempfile.TemporaryFile("w+") as log,
        # A session of its own: a Ctrl-C is meant for us, and the server is told to stop once, by us.
        subprocess.Popen(
            [serve, *ports, *options], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as server,
    ):
        try:
            _wait_until_ready(server, log)
            yield RunningServer(numbers["http"], numbers["grpc"], server.pid, numbers["health"])
        finally:
            server.terminate()
            try:
                server.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_until_ready(server: subprocess.Popen[str], log: TextIO) -> None:
    """The server prints its addresses once it is ready, or ends and has said why."""
    assert server.stdout is not None
    if all(server.stdout.readline() for _ in range(4)):
        return
    log.seek(0)
    lines = log.read().splitlines() or ["the server ended before it was ready"]
    errors = [line for line in lines if line.startswith("error: ")] or lines
    raise SetupError("E_SERVER", errors[-1].removeprefix("error: "))
