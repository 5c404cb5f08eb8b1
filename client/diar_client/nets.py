"""The ``diar_nn`` models of a server as one: each block goes to one that works.

A model that fails is left alone for a while, then tried with one block; its blocks go to the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diar.errors import DiarError
from diar.pipeline import BlockResult
from diar.tensors import BLOCK_OUTPUTS, EMBEDDINGS, LANES, LOGITS, PURE_EMBEDDINGS, SPAN, SPEECH
from diar_client.connection import Connection
from diar_client.failures import RETRYABLE, no_answer_in_time
from diar_client.retry import Deadline, Patience

IN_FLIGHT = 2  # blocks per diar_nn: one computes while the next one is on its way


@dataclass
class _Net:
    """One ``diar_nn``. failures: since it worked last. rests_until: by time.monotonic()."""

    model: str
    in_flight: int = 0
    failures: int = 0
    rests_until: float = 0.0

    def is_free(self, now: float) -> bool:
        """Whether a block may be sent: two at once, one only to a model that failed last."""
        return self.in_flight < (1 if self.failures else IN_FLIGHT) and now >= self.rests_until


class NetPool:
    """Runs blocks on ``models``, at most ``IN_FLIGHT`` at once on each."""

    def __init__(self, connection: Connection, models: Sequence[str], patience: Patience) -> None:
        self._connection = connection
        self._nets = [_Net(model) for model in models]
        self._patience = patience
        self._change = asyncio.Event()  # a net may have become free
        self._error: DiarError | None = None  # the last failure

    @property
    def size(self) -> int:
        """Blocks that may be in flight."""
        return IN_FLIGHT * len(self._nets)

    async def run(self, span: npt.NDArray[np.float32], deadline: Deadline) -> BlockResult:
        """Run one block where there is room, again elsewhere if that fails in a way that may pass.

        Raises the last failure once every model has failed ``patience.retries`` times again without a
        success between, or if the deadline passes before the next try; Cancelled when it has passed.
        """
        while True:
            net = await self._take(deadline)
            failures = net.failures
            try:
                result = await run_block(self._connection, net.model, span, deadline.left_s())
            except RETRYABLE as err:
                self._error = err
                if net.failures == failures:  # else the other block in flight has said so already
                    net.rests_until = time.monotonic() + self._patience.wait_s(failures)
                    net.failures += 1
                    self._patience.tell(err)
            else:
                net.failures = 0
                return result
            finally:
                net.in_flight -= 1
                self._change.set()

    async def _take(self, deadline: Deadline) -> _Net:
        """Wait for a model that takes a block; those that work come first, then the least busy."""
        while True:
            left_s = deadline.left_s()
            if left_s == 0:
                raise no_answer_in_time(self._connection.url)
            hopeful = [net for net in self._nets if net.failures <= self._patience.retries]
            now = time.monotonic()
            if free := [net for net in hopeful if net.is_free(now)]:
                net = min(free, key=lambda net: (net.failures, net.in_flight))
                net.in_flight += 1
                return net
            rests_s = [max(0.0, net.rests_until - now) for net in hopeful]
            if self._error and (not rests_s or (left_s is not None and min(rests_s) >= left_s)):
                raise self._error
            waits_s = [wait_s for wait_s in (*rests_s, left_s) if wait_s]
            self._change.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._change.wait(), min(waits_s, default=None))


async def run_block(
    connection: Connection, model: str, span: npt.NDArray[np.float32], timeout_s: float | None
) -> BlockResult:
    """Run one block on ``model``, once."""
    outputs = await connection.infer(model, {SPAN: span}, BLOCK_OUTPUTS, timeout_s=timeout_s)
    segmentation_lane, embedding_lane = (lane.decode() for lane in outputs[LANES])
    return BlockResult(
        outputs[LOGITS],
        outputs[EMBEDDINGS],
        outputs[SPEECH],
        outputs[PURE_EMBEDDINGS],
        (segmentation_lane, embedding_lane),
    )
