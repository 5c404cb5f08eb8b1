"""Calling the ``diar_nn`` models from a model that takes recordings: fail-over, and waiting for a reload."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from diar.board import Board
from diar.errors import DiarError, InternalError, NetsUnavailable, parse_error
from diar.pipeline import BlockResult, RunBlock
from diar.serving.answers import MEMORY, SHORT_OF_MEMORY
from diar.serving.breaker import Breaker
from diar.serving.metrics import Metrics
from diar.tensors import (
    BLOCK_OUTPUTS,
    DEADLINE,
    EMBEDDINGS,
    LANES,
    LOGITS,
    PURE_EMBEDDINGS,
    SPAN,
    SPEECH,
)

MOST_LOSSES = 3  # a block that so many diar_nn were lost with is likely what they are lost by
BLOCK_S = 60.0  # a block that takes longer, its place in the queue included, has been lost
_SIGN_S = 1.0  # how often a caller that waits shows that it is not stuck
_POLL_S = 0.1

log = logging.getLogger(__name__)


class BlockLost(Exception):
    """A ``diar_nn`` gave no answer to a block: another one may."""


@dataclass(frozen=True)
class CallLimits:
    """What binds the calls of one recording.

    check: called before each block; what it raises ends the recording. left_s: seconds until its deadline.
    get_on: called at least once a second while it waits. block_s: after so long a block is lost.
    """

    check: Callable[[], None] = lambda: None
    left_s: Callable[[], float] = lambda: math.inf
    get_on: Callable[[], None] = lambda: None
    block_s: float = BLOCK_S


@dataclass
class Nets:
    """The ``diar_nn`` models as one model instance calls them. instance: its name, for the metrics."""

    models: Sequence[str]
    in_flight: int
    instance: str
    breaker: Breaker = field(default_factory=lambda: Breaker(Board.find()))
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        """Nothing is in flight yet."""
        self._in_flight = dict.fromkeys(self.models, 0)
        self._shown: dict[str, bool] = {}
        for model in self.models:
            self._count(model, 0)
            self.metrics.add("diar_blocks_lost_total", 0, model=model)
            self._show(model)

    def slots(self, limits: CallLimits, outputs: Sequence[str] = BLOCK_OUTPUTS) -> list[RunBlock]:
        """``in_flight`` slots for each model, those of one model not beside each other.

        outputs: to ask for; without EMBEDDINGS they are zeros.

        A block whose own model fails goes to another one, where it waits until fewer than ``in_flight`` of
        these slots' blocks are; with none left it waits for a reload. InternalError ends the recording if the
        same block is lost again and again: it is not to take one after the other down.
        """
        permits = {model: asyncio.Semaphore(self.in_flight) for model in self.models}

        def slot(home: str) -> RunBlock:
            async def run(span: npt.NDArray[np.float32]) -> BlockResult:
                return await self._run(home, span, limits, permits, outputs)

            return run

        return [slot(model) for _ in range(self.in_flight) for model in self.models]

    async def _run(
        self,
        home: str,
        span: npt.NDArray[np.float32],
        limits: CallLimits,
        permits: dict[str, asyncio.Semaphore],
        outputs: Sequence[str],
    ) -> BlockResult:
        losses = 0
        while losses < MOST_LOSSES:
            limits.check()
            model = await self._usable(home, limits)
            async with permits[model]:
                limits.check()
                if self._is_open(model):  # while this block waited
                    continue
                try:
                    self._count(model, 1)
                    return await run_block(model, span, limits, outputs)
                except BlockLost as err:
                    limits.check()  # it may be the caller's time that is over
                    losses += 1
                    self.breaker.trip(model, str(err))
                    self.metrics.add("diar_blocks_lost_total", model=model)
                    self._show(model)
                finally:
                    self._count(model, -1)
        raise InternalError("E_INTERNAL_BLOCK", f"given up a block that was lost {losses} times")

    async def _usable(self, home: str, limits: CallLimits) -> str:
        """``home`` if it may be used, else another one; waits while there is none.

        Raises NetsUnavailable if nobody heals them, if they cannot be healed, or if time is over.
        """
        others = [model for model in self.models if model != home]
        while True:
            for model in [home, *sorted(others, key=self._in_flight.__getitem__)]:
                if not self._is_open(model):
                    return model
            if all(self.breaker.is_hopeless(model) for model in self.models) or limits.left_s() <= 0:
                raise NetsUnavailable(
                    "E_NETS_UNAVAILABLE", f"{', '.join(self.models)} cannot take the block now; try again"
                )
            limits.get_on()
            await asyncio.sleep(_POLL_S)
            limits.check()

    def _is_open(self, model: str) -> bool:
        is_open = self.breaker.is_open(model)
        if is_open != self._shown.get(model):
            self._show(model)
        return is_open

    def _show(self, model: str) -> None:
        self._shown[model] = self.breaker.is_open(model)
        self.metrics.set("diar_breaker_open", float(self._shown[model]), model=model, instance=self.instance)

    def _count(self, model: str, change: int) -> None:
        self._in_flight[model] += change
        self.metrics.set(
            "diar_blocks_in_flight", float(self._in_flight[model]), model=model, instance=self.instance
        )


def block_slots(models: Sequence[str], in_flight: int, check: Callable[[], None]) -> list[RunBlock]:
    """Slots of their own for a caller that has no other limits than ``check``."""
    return Nets(models, in_flight, "").slots(CallLimits(check))


async def run_block(
    model: str,
    span: npt.NDArray[np.float32],
    limits: CallLimits = CallLimits(),
    outputs: Sequence[str] = BLOCK_OUTPUTS,
) -> BlockResult:
    """Run one block on ``model``; of its results EMBEDDINGS may be left out, and are zeros then.

    A call cannot be stopped once it is made. If this task is cancelled it waits for the call's end, so that
    no more blocks are ever in flight than there are slots.

    Raises the model's own error, Overloaded if there is no shared memory left for the block, BlockLost if
    Triton could not get an answer from the model, or not in time.
    """
    wait_s = max(0.0, min(limits.block_s, limits.left_s()))
    request = pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=list(outputs),
        inputs=[pb_utils.Tensor(SPAN, span)],
        parameters={DEADLINE: int((time.time() + wait_s) * 1000)} if math.isfinite(wait_s) else {},
    )
    call = asyncio.ensure_future(request.async_exec())
    deadline = time.monotonic() + wait_s
    try:
        while not call.done():
            await asyncio.wait([call], timeout=min(_SIGN_S, max(0.0, deadline - time.monotonic())))
            limits.get_on()
            if not call.done() and time.monotonic() >= deadline:
                raise BlockLost(f"no answer to a block within {wait_s:.0f} s")
    except asyncio.CancelledError:
        await asyncio.wait([call], timeout=max(0.0, deadline - time.monotonic()))
        raise
    response = call.result()
    if response.has_error():
        raise callee_error(model, response.error().message())
    answer = {name: pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs}
    pure = answer[PURE_EMBEDDINGS]
    segmentation_lane, embedding_lane = (lane.decode() for lane in answer[LANES])
    return BlockResult(
        answer[LOGITS],
        answer.get(EMBEDDINGS, np.zeros_like(pure)),
        answer[SPEECH],
        pure,
        (segmentation_lane, embedding_lane),
    )


def callee_error(model: str, message: str) -> Exception:
    """The error to report when ``model`` answered with ``message`` (its code is lost on the way)."""
    error: DiarError | None = parse_error(message)
    if isinstance(error, NetsUnavailable):
        return BlockLost(error.text)
    if error:
        return error
    log.warning("%s: %s", model, message)
    if SHORT_OF_MEMORY in message:
        return MEMORY
    return BlockLost(" ".join(message.split()))
