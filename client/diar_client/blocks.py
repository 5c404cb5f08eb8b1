"""Block mode: the client cuts the recording, sends its blocks to the networks and does the rest itself.

The server then holds no more than the blocks in flight, whatever the recording's length.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from diar.audio import check_samples
from diar.options import Options
from diar.pipeline import BlockResult, Recording
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Block, Samples, plan_blocks, take_span
from diar.stopwatch import Stopwatch
from diar_client.connection import Connection
from diar_client.nets import NetPool
from diar_client.retry import Deadline, Patience
from diar_client.served import ask, find_nn_models, learn
from diar_client.session import Session


@dataclass(frozen=True)
class BlockDone:
    """A block that has been run. start, end: of its span, in samples. done: blocks by now, of ``total``."""

    index: int
    start: int
    end: int
    done: int
    total: int


class AsyncBlockRun:
    """One recording in block mode. Iterate to run its blocks, then ask for the result.

    What has been run stays so: after an error, iterating again goes on with the blocks that are missing. The
    samples are given up with the last block. The same bytes as the model ``diarize``.

    samples: (samples,) 16 kHz mono, float32 in [-1, 1] or int16. deadline: called for that of each block.
    """

    def __init__(
        self,
        connection: Connection,
        samples: Samples,
        options: Options,
        deadline: Callable[[], Deadline],
        patience: Patience,
    ) -> None:
        check_samples(samples)
        self._connection = connection
        self._samples: Samples | None = samples
        self._num_samples = len(samples)
        self._options = options
        self._deadline = deadline
        self._patience = patience
        self._stopwatch = Stopwatch()
        self._profile: Profile | None = None
        self._recording: Recording | None = None
        self._done: set[int] = set()

    async def __aiter__(self) -> AsyncGenerator[BlockDone, None]:
        """Run the blocks that are missing; yields each when it is done, in any order."""
        if self._samples is None:
            return
        with self._stopwatch("blocks"):
            models = await ask(self._connection, self._find_nets, self._deadline(), self._patience)
            pool = NetPool(self._connection, models, self._patience)
            assert self._recording
            async with aclosing(self._run(pool, self._recording, self._samples)) as blocks:
                async for block in blocks:
                    yield block
            self._samples = None

    @property
    def num_done(self) -> int:
        """Blocks that have been run."""
        return len(self._done)

    async def result(self) -> Diarization:
        """Run what is missing, then cluster and stitch."""
        async for _ in self:
            pass
        assert self._recording
        result = await asyncio.to_thread(
            self._recording.finish, self._num_samples, self._options, self._stopwatch
        )
        if not self._options.timings:
            return result
        seconds = self._stopwatch.seconds
        return replace(result, timings={**seconds, "total": sum(seconds.values())})

    async def _find_nets(self) -> list[str]:
        models = await find_nn_models(self._connection)
        if self._recording is None:
            served = await learn(self._connection, models[0])  # one repository: the others serve the same
            self._profile, self._recording = served.profile, Recording(served.profile)
        return models

    async def _run(
        self, pool: NetPool, recording: Recording, samples: Samples
    ) -> AsyncGenerator[BlockDone, None]:
        assert self._profile
        blocks = plan_blocks(len(samples), self._profile.geometry)
        waiting = deque(block for block in blocks if block.index not in self._done)
        running: dict[asyncio.Task[BlockResult], Block] = {}
        try:
            while waiting or running:
                while waiting and len(running) < pool.size:
                    block = waiting.popleft()
                    run = pool.run(take_span(samples, block), self._deadline())
                    running[asyncio.ensure_future(run)] = block
                finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    block = running.pop(task)
                    recording.add(block, task.result())
                    self._done.add(block.index)
                    end = min(block.start + block.num_samples, self._num_samples)
                    yield BlockDone(block.index, block.start, end, len(self._done), len(blocks))
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


class BlockRun:
    """An AsyncBlockRun for blocking callers."""

    def __init__(self, session: Session[Any], inner: AsyncBlockRun) -> None:
        self._session = session  # kept alive
        self._inner = inner

    def __iter__(self) -> Iterator[BlockDone]:
        """See ``AsyncBlockRun``."""
        blocks = self._inner.__aiter__()
        try:
            while block := self._session.run_async(_next(blocks)):
                yield block
        finally:
            self._session.run_async(blocks.aclose())

    def result(self) -> Diarization:
        """See ``AsyncBlockRun.result``."""
        return self._session.run_async(self._inner.result())


async def _next(blocks: AsyncGenerator[BlockDone, None]) -> BlockDone | None:
    return await anext(blocks, None)
