"""The ``diar_nn`` models as the live recordings of an instance share them: listeners come first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from diar.pipeline import BlockResult, RunBlock

URGENT, PATIENT = 0, 1
_Job = tuple[int, int, npt.NDArray[np.float32], "asyncio.Future[BlockResult]"]


class SharedNets:
    """Slots that run one block each at a time. Made, used and closed inside one event loop.

    slots: as ``pipeline.diarize`` takes them. Whole blocks take at most half of them, so that a few windows
    for a live view never wait for more than one block.
    """

    def __init__(self, slots: Sequence[RunBlock]) -> None:
        self._jobs: asyncio.PriorityQueue[_Job] = asyncio.PriorityQueue()
        self._order = count()
        self._blocks = asyncio.Semaphore(max(1, len(slots) // 2))
        self._workers = [asyncio.ensure_future(self._work(slot)) for slot in slots]

    async def run_windows(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run a few windows, before any block that waits."""
        return await self._run(URGENT, span)

    async def run_block(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run a block that nobody is waiting for yet."""
        async with self._blocks:
            return await self._run(PATIENT, span)

    async def _run(self, urgency: int, span: npt.NDArray[np.float32]) -> BlockResult:
        answer: asyncio.Future[BlockResult] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((urgency, next(self._order), span, answer))
        return await answer

    async def _work(self, slot: RunBlock) -> None:
        while True:
            _, _, span, answer = await self._jobs.get()
            if answer.done():  # nobody waits for it any more
                continue
            try:
                result = await slot(span)
            except asyncio.CancelledError:
                answer.cancel()
                raise
            except Exception as err:
                if not answer.done():
                    answer.set_exception(err)
            else:
                if not answer.done():
                    answer.set_result(result)
