"""What every model that takes recordings does around one: its limits, its figures, its line in the log."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import triton_python_backend_utils as pb_utils

from diar.board import Board, Work
from diar.errors import Cancelled, InvalidOption, Overloaded
from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.serving.answers import check_wanted, failed, request_id, request_parameters, shown
from diar.serving.metrics import Metrics
from diar.serving.nets import CallLimits
from diar.tensors import PROBE_ID

_MICROSECONDS = 1_000_000
_SIGN_S = 1.0
_T = TypeVar("_T")

log = logging.getLogger(__name__)


@dataclass
class Job:
    """One recording on its way through a model. seconds: by stage, as the stopwatch has them."""

    request: pb_utils.InferenceRequest
    max_s: float
    block_s: float
    get_on: Callable[[], None]
    seconds: Mapping[str, float] = field(default_factory=dict)
    result: Diarization | None = None
    outcome: str = "ok"

    def __post_init__(self) -> None:
        """Time runs from here; the caller's own limit, if it gave one, can only shorten ours."""
        self.start = time.monotonic()
        timeout_s = self.request.timeout() / _MICROSECONDS
        self.is_callers = 0 < timeout_s < self.max_s
        self.limit_s = timeout_s if self.is_callers else self.max_s

    def left_s(self) -> float:
        """Seconds until its time is over."""
        return self.start + self.limit_s - time.monotonic()

    def check(self) -> None:
        """Raise Cancelled if nobody waits for the answer any more or its time is over."""
        check_wanted(self.request)
        self.get_on()
        if self.left_s() <= 0:
            whose = "the request's own limit" if self.is_callers else "the longest a recording may take here"
            raise Cancelled("E_CANCELLED_DEADLINE", f"not done within {self.limit_s:g} s, {whose}")

    async def wait_for(self, work: Awaitable[_T]) -> _T:
        """The result of ``work`` that gives no sign itself."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait([task], timeout=_SIGN_S)
            self.get_on()
        return task.result()

    @property
    def call_limits(self) -> CallLimits:
        """What binds its calls of the networks."""
        return CallLimits(self.check, self.left_s, self.get_on, self.block_s)

    def failed(self, error: Exception) -> pb_utils.InferenceResponse:
        """The answer to its request when ``error`` ended it."""
        self.outcome = shown(error).word
        return failed(error)


@dataclass(frozen=True)
class Reception:
    """Takes the recordings of one model instance in.

    max_s, block_s: the longest that a recording and a block may take. board: None without a supervisor.
    """

    model: str
    max_s: float
    block_s: float
    board: Board | None
    metrics: Metrics
    work: Work

    @contextmanager
    def job(self, request: pb_utils.InferenceRequest) -> Iterator[Job]:
        """One recording; counted and logged at the end. Nothing is raised for it."""
        with self.work.job() as get_on:
            job = Job(request, self.max_s, self.block_s, get_on)
            yield job
            if job.outcome != "ok":
                gc.collect()  # tasks that failed hold each other, and their blocks in shared memory
            if not is_probe(request):
                self._report(job)

    def admit(self, job: Job) -> None:
        """Raise Cancelled if nobody wants the answer any more, Overloaded once the server is stopping."""
        job.check()
        self.check_open()

    def check_open(self) -> None:
        """Raise Overloaded once the server is stopping."""
        if self.board is not None and self.board.draining:
            raise Overloaded("E_OVERLOADED_DRAINING", "this server is stopping; try again, or another one")

    def _report(self, job: Job) -> None:
        self.metrics.add("diar_recordings_total", model=self.model, outcome=job.outcome)
        line: dict[str, object] = {
            "id": request_id(job.request),
            "outcome": job.outcome,
            "took_s": round(time.monotonic() - job.start, 3),
        }
        if job.result is not None:
            audio_s = job.result.num_samples / SAMPLE_RATE
            self.metrics.add("diar_audio_seconds_total", audio_s, model=self.model)
            self.metrics.observe("diar_speakers", len(job.result.speakers), model=self.model)
            for stage, seconds in job.seconds.items():
                self.metrics.observe("diar_stage_seconds", seconds, model=self.model, stage=stage)
            line |= {
                "audio_s": round(audio_s, 3),
                "speakers": len(job.result.speakers),
                "stages_s": {stage: round(seconds, 3) for stage, seconds in job.seconds.items()},
                "lanes": job.result.lanes,
            }
        log.info("%s", recording_line(line, as_json=self.board is not None and self.board.log_json))


def is_probe(request: pb_utils.InferenceRequest) -> bool:
    """Whether a recording is one of the supervisor's own, which are neither counted nor logged."""
    if request_id(request) == PROBE_ID:
        return True
    try:  # Triton's generate_stream knows no request ids
        return request_parameters(request).get("file_id") == PROBE_ID
    except InvalidOption:
        return False


def recording_line(values: Mapping[str, object], *, as_json: bool) -> str:
    """One line on one recording, for a log.

    >>> recording_line({"id": "7", "stages_s": {"total": 1.5}}, as_json=False)
    'recording id=7 stages_s=total:1.5'
    >>> recording_line({"id": "a b", "speakers": 2}, as_json=True)
    'recording {"id": "a b", "speakers": 2}'
    """
    if as_json:
        return f"recording {json.dumps(values)}"
    texts = {
        name: ",".join(f"{key}:{each}" for key, each in value.items()) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return "recording " + " ".join(f"{name}={_one_word(text)}" for name, text in texts.items())


def _one_word(value: object) -> str:
    return "_".join(str(value).split()) or "-"
