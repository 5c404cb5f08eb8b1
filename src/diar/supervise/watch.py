"""One thread per model that finds it dead or stuck, and heals it: kill what is left of it, unload, load.

A stub that died is never restarted by Triton; one that was stopped and resumes takes tritonserver with it; so
the first thing is always a SIGKILL. Only this module ever loads a model.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from diar.board import Board
from diar.supervise.control import Control, ControlError, NoAnswer
from diar.supervise.probes import probe_request
from diar.supervise.repository import Model
from diar.supervise.status import Status
from diar.supervise.stubs import LOAD_ERROR_S, Stub, find_stubs

_POLL_S = 0.3
_UNLOAD_S = 20.0
_NAMED = "E_"
_NETS_WORD = "E_NETS"
_PROBES = 2  # without an answer, one after the other: an answer to the first may just have been late

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long what may take.

    probe_every_s: pause between the probes of a model that works. probe_s: an answer to one; longer for one
    that waits behind other work. idle_s, busy_s: a stub at work that does not get on for so long is stuck,
    the latter if it uses the CPU meanwhile. load_s: loading a model. first_wait_s, longest_wait_s: pauses
    between attempts to heal, doubled each time. attempts: after so many the model counts as broken; it is
    tried again all the same.
    """

    probe_every_s: float = 5.0
    probe_s: float = 10.0
    idle_s: float = 8.0
    busy_s: float = 60.0
    load_s: float = 120.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    attempts: int = 3


_CPU_SHARE = 0.02  # of one core: a stub that uses less is idle


class ModelWatch(threading.Thread):
    """Watches one model of one tritonserver until it is stopped.

    restart: called with a reason when tritonserver itself has to be started again.
    """

    def __init__(
        self,
        model: Model,
        server_pid: int,
        control: Control,
        board: Board,
        status: Status,
        patience: Patience,
        restart: Callable[[str], None],
    ) -> None:
        super().__init__(name=f"watch {model.name}", daemon=True)
        self._model = model
        self._server_pid = server_pid
        self._control = control
        self._board = board
        self._status = status
        self._patience = patience
        self._restart = restart
        self._stopping = threading.Event()
        self._probing = True
        self._signs: dict[
            Stub, tuple[float, float, float]
        ] = {}  # last sign, and clock and CPU when first seen
        self._stubs = find_stubs(server_pid, model.name)
        status.set_model(model.name, "serving")

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    def stop_probing(self) -> None:
        """Send no more requests of its own."""
        self._probing = False

    def run(self) -> None:
        """Watch, heal, watch. One that is at work is not probed: it gets on, or is found to be stuck."""
        due = time.monotonic() + self._patience.probe_every_s
        while not self._stopping.wait(_POLL_S):
            bad, reason = self._bad_stubs()
            if not reason and not self._board.at_work(self._model.name):
                told = self._board.trouble(self._model.name)
                if told or (self._probing and time.monotonic() > due):
                    reason = self._probe()
                    due = time.monotonic() + self._patience.probe_every_s
                if told and not reason:
                    self._board.settle(self._model.name)
            if reason and not self._stopping.is_set():
                self._heal(bad, reason)
                due = time.monotonic() + self._patience.probe_every_s

    def _bad_stubs(self) -> tuple[list[Stub], str]:
        """Stubs that are dead, stopped or stuck, and in words why."""
        bad, reason = [], ""
        for stub in self._stubs:
            state = stub.state
            if state != "running":
                bad.append(stub)
                reason = f"stub {stub.pid} is {state}"
            elif stuck_s := self._stuck_s(stub):
                bad.append(stub)
                reason = f"stub {stub.pid} has been stuck for {stuck_s:.0f} s"
        return bad, reason

    def _stuck_s(self, stub: Stub) -> float:
        """Seconds for which a stub at work has not got on, if too many; else 0."""
        sign = self._board.last_sign(self._model.name, stub.pid)
        if sign is None:
            self._signs.pop(stub, None)
            return 0.0
        now, cpu_s = time.monotonic(), stub.cpu_s
        known, since, cpu_before = self._signs.setdefault(stub, (sign, now, cpu_s))
        if known != sign:
            self._signs[stub] = (sign, now, cpu_s)
            return 0.0
        waited_s = now - since
        is_idle = cpu_s - cpu_before < _CPU_SHARE * waited_s
        too_long = waited_s > (self._patience.idle_s if is_idle else self._patience.busy_s)
        return waited_s if too_long else 0.0

    def _probe(self) -> str:
        """Why the model does not work; "" if it does, is at work on something else or cannot be asked."""
        request = probe_request(self._model)
        if request is None:
            return ""
        problem = ""
        for _ in range(_PROBES):
            try:
                self._control.infer(request, self._patience.probe_s)
            except ControlError as err:
                if _NAMED not in str(err) and "not healthy" in str(err):
                    return f"a probe was answered: {err}"
                if _NETS_WORD in str(err) and "nn_models" not in self._model.parameters:
                    return f"a probe was answered: {err}"
                return ""
            except NoAnswer as err:
                problem = f"no answer to a probe within {self._patience.probe_s:g} s ({err})"
                if self._stopping.is_set() or self._board.at_work(self._model.name):
                    return ""
            else:
                return ""
        return problem

    def _heal(self, bad: list[Stub], reason: str) -> None:
        """Kill, unload and load until the model works or this watch is stopped."""
        name, start, wait_s, failures = self._model.name, time.monotonic(), self._patience.first_wait_s, 0
        self._say(f"healing: {reason}")
        self._status.set_model(name, "healing", reason)
        self._board.report(name, reason)
        for stub in bad or self._stubs:
            stub.kill()
            self._board.forget(name, stub.pid)
        while not self._stopping.is_set():
            problem = self._reload()
            if not problem:
                self._board.settle(name)
                self._status.set_model(name, "serving")
                self._say(f"healed in {time.monotonic() - start:.1f} s")
                return
            if self._stopping.is_set():
                return
            failures += 1
            self._say(f"attempt {failures} to heal it failed: {problem}")
            if failures >= self._patience.attempts:
                self._status.set_model(name, "broken", problem)
                self._board.give_up(name, problem)
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, self._patience.longest_wait_s)

    def _reload(self) -> str:
        """Unload and load; why the model does not work then, or ""."""
        name = self._model.name
        before = set(find_stubs(self._server_pid, name))
        try:
            self._control.unload(name, _UNLOAD_S)
        except ControlError:
            pass  # it is not loaded
        except NoAnswer as err:
            self._restart(f"no answer to unloading {name}: {err}")
            return "tritonserver does not answer"
        try:
            self._load(before)
        except ControlError as err:
            return str(err)
        except NoAnswer:
            for stub in find_stubs(self._server_pid, name):
                stub.kill()
            return f"loading took more than {self._patience.load_s:g} s"
        after = find_stubs(self._server_pid, name)
        self._stubs = [stub for stub in after if stub not in before] or after
        self._signs.clear()
        return self._probe()

    def _load(self, old: set[Stub]) -> None:
        """Load the model. Triton 24.10 never answers if a new stub dies meanwhile, or is stopped."""
        new: set[Stub] = set()
        lost_since = math.inf
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(self._control.load, self._model.name, self._patience.load_s)
            while not wait([loading], _POLL_S).done:
                new.update(stub for stub in find_stubs(self._server_pid, self._model.name) if stub not in old)
                if not new or any(stub.state != "running" for stub in new):
                    lost_since = min(lost_since, time.monotonic())
                if time.monotonic() - lost_since > LOAD_ERROR_S:
                    self._restart(f"lost a stub of {self._model.name} while loading it")
                    break
            loading.result()

    def _say(self, text: str) -> None:
        log.warning("%s: %s", self._model.name, text)
