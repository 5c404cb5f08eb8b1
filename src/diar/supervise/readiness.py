"""Waiting for tritonserver to be ready, and finding out why it is not."""

from __future__ import annotations

import http.client
import math
import re
import time
from collections.abc import Callable, Iterable

from diar.errors import SetupError
from diar.supervise.process import TritonServer
from diar.supervise.stubs import LOAD_ERROR_S, has_dead_stub

_PROBE_TIMEOUT_S = 2.0
_POLL_S = 0.1
_LOAD_ERROR = re.compile(
    r"E\d+ .*failed to load '(?P<model>[^']+)' version \d+: [A-Z][a-z ]*: "
    r"(SetupError: E_\w+\|)?(?P<reason>.+)"
)


def is_ready(host: str, port: int) -> bool:
    """Ask the server whether it and all its models are ready."""
    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def wait_until_ready(
    server: TritonServer, host: str, port: int, timeout_s: float, cancelled: Callable[[], bool]
) -> bool:
    """Wait until the server is ready: True; False if ``cancelled`` says so first.

    Raises SetupError: E_START with the reason that its log gives if it ends or loses a stub, which it would
    wait for without end, or if ``timeout_s`` pass.
    """
    deadline = time.monotonic() + timeout_s
    lost_since = math.inf
    while not cancelled():
        if is_ready(host, port):
            return True
        now = time.monotonic()
        if has_dead_stub(server.pid):
            lost_since = min(lost_since, now)
        if server.exit_code is not None or now - lost_since > LOAD_ERROR_S:
            raise SetupError("E_START", start_error(server.log_lines()))
        if now > deadline:
            raise SetupError("E_START", f"tritonserver was not ready within {timeout_s:g} s; see its log")
        time.sleep(_POLL_S)
    return False


def start_error(lines: Iterable[str]) -> str:
    r"""Why a start failed: the first line of the log that says so, without what Triton wraps around it.

    >>> line = r"E1 x.cc:1] failed to load 'a' version 1: Internal: SetupError: E_X|no b\n\nAt:\n c"
    >>> start_error([line])
    'a did not load: no b'
    """
    last_words = "tritonserver or a stub ended before it was ready; see its log"
    for line in lines:
        if match := _LOAD_ERROR.match(line):
            reason = match["reason"].split("\\n\\nAt:")[0].rstrip('"')
            return f"{match['model']} did not load: {reason}"
        if line.startswith("error: "):
            last_words = line.removeprefix("error: ")
    return last_words
