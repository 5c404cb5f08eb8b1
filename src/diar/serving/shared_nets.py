"""The ``diar_nn`` models as the live recordings of an instance share them: listeners come first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from diar.pipeline import BlockResult, RunBlock
from diar.profile import Profile

URGENT, PATIENT = 0, 1
_Job = tuple[int, int, bool, npt.NDArray[np.float32], "asyncio.Future[BlockResult]"]


class SharedNets:
    """Slots that run one block each at a time. Made, used and closed inside one event loop.

    full, lean: slots as ``pipeline.diarize`` takes them, as many of each; lean ones leave EMBEDDINGS out,
    which is enough where each window has pure embeddings. Of the two at one place one is used at a time.
    Blocks take at most half of the places, so that windows never wait for more than one block.
    """

    def __init__(self, profile: Profile, full: Sequence[RunBlock], lean: Sequence[RunBlock]) -> None:
        self._profile = profile
        self._jobs: asyncio.PriorityQueue[_Job] = asyncio.PriorityQueue()
        self._order = count()
        self._blocks = asyncio.Semaphore(max(1, len(full) // 2))
        self._workers = [asyncio.ensure_future(self._work(*place)) for place in zip(full, lean, strict=True)]

    async def run_windows(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run a few windows for a live view, before any block that waits."""
        windows = self._profile.geometry.windows_of_span(len(span)) or 1
        return await self._run(URGENT, self._profile.pure_step(windows) == 1, span)

    async def run_block(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run a block that nobody is waiting for yet."""
        async with self._blocks:
            return await self._run(PATIENT, False, span)

    async def _run(self, urgency: int, lean: bool, span: npt.NDArray[np.float32]) -> BlockResult:
        answer: asyncio.Future[BlockResult] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((urgency, next(self._order), lean, span, answer))
        return await answer

    async def _work(self, run_full: RunBlock, run_lean: RunBlock) -> None:
        while True:
            _, _, lean, span, answer = await self._jobs.get()
            if answer.done():  # nobody waits for it any more
                continue
            try:
                result = await (run_lean if lean else run_full)(span)
            except asyncio.CancelledError:
                answer.cancel()
                raise
            except Exception as err:
                if not answer.done():
                    answer.set_exception(err)
            else:
                if not answer.done():
                    answer.set_result(result)
