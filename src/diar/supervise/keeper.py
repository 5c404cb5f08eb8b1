"""Keeps one tritonserver serving: starts it, watches it and its models, starts it again, ends it in order."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from diar.board import Board
from diar.errors import SetupError
from diar.supervise.control import Control
from diar.supervise.launch import Launch
from diar.supervise.process import TritonServer
from diar.supervise.readiness import wait_until_ready
from diar.supervise.status import Status
from diar.supervise.stubs import is_stopped
from diar.supervise.watch import ModelWatch, Patience

_POLL_S = 0.1
_STOP_MARGIN_S = 5.0  # what ending takes on top of the exit timeout
_QUIET_S = 0.5  # nobody at work for so long: the last answer has left
_LIVE_EVERY_S, _LIVE_ANSWER_S = 2.0, 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What the keeper puts up with.

    start_s: loading everything. drain_s: what running recordings may take at the end. silent_s: tritonserver
    answers nothing for so long, and is started again. restarts, within_s: more than so many are given up.
    """

    start_s: float = 300.0
    drain_s: float = 30.0
    silent_s: float = 30.0
    restarts: int = 5
    within_s: float = 600.0


@dataclass
class Keeper:
    """Owns the server. stops: how often it was told to end. ready: called when it is ready first."""

    launch: Launch
    environment: Mapping[str, str]
    board: Board
    status: Status
    limits: Limits
    patience: Patience
    stops: Callable[[], int]
    ready: Callable[[], None]
    _watches: list[ModelWatch] = field(default_factory=list)
    _starts: deque[float] = field(default_factory=deque)

    def run(self) -> None:
        """Serve until told to end. Raises SetupError if the server does not start, or too often."""
        self._wanted_restart = ""
        self._last_answer = time.monotonic()
        self._start()
        try:
            if self._load():
                self.ready()
                threading.Thread(target=self._listen, name="liveness", daemon=True).start()
            while not self.stops():
                self.status.tick()
                if reason := self._fault():
                    self._start_again(reason)
                time.sleep(_POLL_S)
            self._drain()
        finally:
            self._end_watches()
            self._server.stop(self.launch.exit_timeout_s + _STOP_MARGIN_S, at_once=lambda: self.stops() > 1)

    def _start(self) -> None:
        self.board.clear()
        self._server = TritonServer(
            self.launch.command(),
            self.environment,
            self.board.folder,
            self.launch.addresses.memory_prefix,
            sys.stderr,
        )

    def _load(self) -> bool:
        """Wait until everything is loaded, then watch it; False if told to end meanwhile."""
        at = self.launch.addresses
        if not wait_until_ready(self._server, at.reachable_host, at.http, self.limits.start_s, self._told):
            return False
        self._last_answer = time.monotonic()
        self._wanted_restart = ""
        control = self._control
        self._watches = [
            ModelWatch(
                model, self._server.pid, control, self.board, self.status, self.patience, self._want_restart
            )
            for model in self.launch.models
        ]
        for watch in self._watches:
            watch.start()
        self.status.enter("serving")
        return True

    @property
    def _control(self) -> Control:
        return Control(self.launch.addresses, self.launch.admin_key, self.launch.api_key)

    def _told(self) -> bool:
        self.status.tick()
        return self.stops() > 0

    def _want_restart(self, reason: str) -> None:
        self._wanted_restart = reason

    def _listen(self) -> None:
        """Note when tritonserver answered last."""
        while True:
            if self._control.is_live(_LIVE_ANSWER_S):
                self._last_answer = time.monotonic()
            time.sleep(_LIVE_EVERY_S)

    def _fault(self) -> str:
        """Why tritonserver has to be started again, or ""."""
        if self._server.exit_code is not None:
            return f"ended by itself, exit code {self._server.exit_code}"
        if is_stopped(self._server.pid):
            return "is stopped"
        if time.monotonic() - self._last_answer > self.limits.silent_s:
            return f"has answered nothing for {self.limits.silent_s:g} s"
        return self._wanted_restart

    def _start_again(self, reason: str) -> None:
        """Kill what is left and start anew. Raises SetupError (E_SERVER) if that happens too often."""
        log.warning("tritonserver %s; starting it again", reason)
        self.status.enter("restarting")
        self._end_watches()
        while not self.stops():
            self._server.kill()
            self._server.stop(_STOP_MARGIN_S)
            self._count_start(reason)
            self._start()
            try:
                self._load()
                return
            except SetupError as err:
                log.warning("tritonserver did not come back: %s", err.text)

    def _count_start(self, reason: str) -> None:
        now = time.monotonic()
        while self._starts and now - self._starts[0] > self.limits.within_s:
            self._starts.popleft()
        self._starts.append(now)
        if len(self._starts) > self.limits.restarts:
            raise SetupError(
                "E_SERVER",
                f"tritonserver {reason}; given up after {self.limits.restarts} restarts within"
                f" {self.limits.within_s:g} s",
            )

    def _end_watches(self) -> None:
        for watch in self._watches:
            watch.stop()
        for watch in self._watches:
            watch.join(timeout=1.0)
        self._watches = []

    def _drain(self) -> None:
        """Take nothing new, and wait until nobody is at work, for ``drain_s`` or until told a second time."""
        self.board.drain()
        self.status.enter("draining")
        for watch in self._watches:
            watch.stop_probing()
        start = quiet_since = time.monotonic()
        while time.monotonic() - start < self.limits.drain_s and self.stops() < 2:
            self.status.tick()
            now = time.monotonic()
            if self._server.exit_code is not None or not self._watches:
                return
            if any(self.board.at_work(model.name) for model in self.launch.models):
                quiet_since = now
            elif now - quiet_since > _QUIET_S:
                return
            time.sleep(_POLL_S)
