"""How a server is, seen from outside: its readiness, its processes, its figures."""

import http.client
import json
import os
from time import monotonic, sleep

import numpy as np
import psutil

from diar.supervise.stubs import find_stubs

MINUTE = 60 * 16_000
# A busy machine may take so many times what is promised; DIAR_TIME_SLACK=1 holds it to its word.
TIME_SLACK = float(os.environ.get("DIAR_TIME_SLACK", "3"))
HANGS, HANGS_ONCE, OUT_OF_MEMORY = (
    -29491,
    -26214,
    -22938,
)  # first samples of a block, for the scripted networks


def get(port, path):
    """(status, body) of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def readiness(served):
    """(status, why) of /ready."""
    status, body = get(served.ports[3], "/ready")
    return status, json.loads(body)["why"]


def is_ready(served):
    """Whether /ready says so; False also while nobody answers."""
    try:
        return readiness(served)[0] == 200
    except OSError:
        return False


def seconds_until(condition, promised_s):
    """Seconds until ``condition`` holds; fails after TIME_SLACK times ``promised_s``."""
    start, limit_s = monotonic(), TIME_SLACK * promised_s
    while not condition():
        assert monotonic() - start < limit_s, f"not within {limit_s:g} s"
        sleep(0.05)
    return monotonic() - start


def tritonserver(served):
    """The tritonserver process, or None."""
    children = psutil.Process(served.process.pid).children(recursive=True)
    return next((child for child in children if child.name().startswith("tritonserver")), None)


def stubs(served, model):
    """The stubs of a model that are alive."""
    server = tritonserver(served)
    return [psutil.Process(stub.pid) for stub in find_stubs(server.pid, model)] if server else []


def heal_count(served, model):
    """How often the model was healed."""
    return figures(served.ports[3]).get(f'diar_heals_total{{model="{model}"}}', 0)


def healed(served, model, before):
    """Whether the model was healed since the count was ``before``, and everything is well."""
    return heal_count(served, model) > before and is_ready(served)


def figures(port):
    """The figures of a /metrics page: text before the value -> value."""
    lines = [line for line in get(port, "/metrics")[1].splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def meeting(minutes, seed=1):
    """Samples for the scripted networks, another class every second: (samples,) int16."""
    classes = np.random.default_rng(seed).integers(0, 4, round(60 * minutes))
    return np.repeat(classes * 3277, 16_000).astype(np.int16)
