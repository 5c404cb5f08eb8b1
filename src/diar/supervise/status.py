"""How the server is, as one truth: for load balancers, for Prometheus, for the log."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

Phase = Literal["starting", "serving", "restarting", "draining"]
Condition = Literal["serving", "healing", "broken"]
_STALL_S = 60.0  # a supervisor that has not come round for so long is stuck

_METRICS = {  # name -> (kind, help)
    "diar_ready": ("gauge", "1 while the server takes recordings and all its models work"),
    "diar_model_serving": ("gauge", "1 while a model works, 0 while it is healed or broken"),
    "diar_heals_total": ("counter", "Times that a model was loaded again because it was dead or stuck"),
    "diar_server_restarts_total": ("counter", "Times that tritonserver was started again"),
    "diar_shared_memory_bytes": ("gauge", "Bytes of /dev/shm that the server's regions take"),
}


class Status:
    """What the supervisor's threads know. memory: folder and prefix of the server's regions."""

    def __init__(self, memory: tuple[Path, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = memory
        self._clock = clock
        self._lock = threading.Lock()
        self._phase: Phase = "starting"
        self._models: dict[str, tuple[Condition, str]] = {}
        self._heals: dict[str, int] = {}
        self._restarts = 0
        self._tick = clock()

    def enter(self, phase: Phase) -> None:
        """A new phase of the server as a whole."""
        with self._lock:
            self._restarts += phase == "restarting"
            self._phase = phase

    def set_model(self, model: str, condition: Condition, reason: str = "") -> None:
        """How a model is; ``reason``: why it does not serve."""
        with self._lock:
            known = self._models.get(model)
            if condition == "serving" and known and known[0] != "serving":
                self._heals[model] += 1
            self._heals.setdefault(model, 0)
            self._models[model] = (condition, reason)

    def tick(self) -> None:
        """The supervisor has come round."""
        self._tick = self._clock()

    @property
    def is_live(self) -> bool:
        """Whether the supervisor itself is not stuck."""
        return self._clock() - self._tick < _STALL_S

    def problems(self) -> list[str]:
        """Why it is not ready; empty if it is."""
        with self._lock:
            found = [] if self._phase == "serving" else [self._phase]
            return found + [
                f"{model}: {condition}: {reason}"
                for model, (condition, reason) in sorted(self._models.items())
                if condition != "serving"
            ]

    def metrics(self) -> str:
        """The figures in Prometheus' text format."""
        folder, prefix = self._memory
        memory = sum(file.stat().st_blocks * 512 for file in folder.glob(f"{prefix}*") if file.exists())
        ready = not self.problems()
        with self._lock:
            values: dict[str, dict[str, float]] = {
                "diar_ready": {"": float(ready)},
                "diar_model_serving": {
                    f'{{model="{model}"}}': float(condition == "serving")
                    for model, (condition, _) in self._models.items()
                },
                "diar_heals_total": {f'{{model="{model}"}}': n for model, n in self._heals.items()},
                "diar_server_restarts_total": {"": self._restarts},
                "diar_shared_memory_bytes": {"": memory},
            }
        lines = []
        for name, (kind, text) in _METRICS.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {value:g}" for labels, value in values[name].items()]
        return "\n".join(lines) + "\n"


def serve_status(status: Status, host: str, port: int) -> ThreadingHTTPServer:
    """Answer /ready, /live and /metrics in a thread of its own; ``shutdown`` the server that is returned."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds: whoever says nothing is left

        def do_GET(self) -> None:
            """Answer one question."""
            if self.path == "/ready":
                problems = status.problems()
                self._send(503 if problems else 200, json.dumps({"ready": not problems, "why": problems}))
            elif self.path == "/live":
                self._send(200 if status.is_live else 503, json.dumps({"live": status.is_live}))
            elif self.path == "/metrics":
                self._send(200, status.metrics(), "text/plain; version=0.0.4")
            else:
                self._send(404, json.dumps({"error": "known: /ready, /live, /metrics"}))

        def log_message(self, *arguments: object) -> None:
            """Keep probes out of the log."""

        def _send(self, code: int, text: str, kind: str = "application/json") -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    _Server.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = _Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="status", daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Who goes away in the middle of an answer is of no interest."""
