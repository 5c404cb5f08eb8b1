"""A live recording: its samples come in pieces, its end gives what ``pipeline.diarize`` gives for all of it.

Whole blocks are run as they fill, the last one at the end; what was computed for the live view meanwhile is
never used for that. Kept are the audio of the block that fills, and what ``Recording`` keeps of each block.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import partial

import numpy as np
import numpy.typing as npt

from diar.audio import check_samples
from diar.errors import DiarError, InvalidAudio
from diar.live import LiveUpdate, LiveView
from diar.pipeline import Recording, RunBlock, Stage
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Block, Geometry, Samples, iter_blocks
from diar.stream_options import StreamOptions

MAX_WAITING_BLOCKS = 1  # full but not yet run, when more audio is taken

log = logging.getLogger(__name__)


class AudioTail:
    """The latest samples of a recording that is still going on.

    >>> tail = AudioTail()
    >>> tail.append(np.arange(5, dtype=np.float32))
    >>> tail.forget(3)
    >>> tail.end, tail.take(4, 7), tail.take(-1, 0)
    (5, array([4., 0., 0.], dtype=float32), array([0.], dtype=float32))
    """

    def __init__(self) -> None:
        self._start = 0  # of what is kept
        self._buffer = np.zeros(0, np.float32)
        self.end = 0

    def append(self, samples: Samples) -> None:
        """Take more samples: float32 in [-1, 1], or int16 with full scale 32768."""
        held = self.end - self._start
        if held + len(samples) > len(self._buffer):
            grown = np.zeros(2 * (held + len(samples)), np.float32)
            grown[:held] = self._buffer[:held]
            self._buffer = grown
        part = self._buffer[held : held + len(samples)]
        part[:] = samples
        if samples.dtype == np.int16:
            part /= np.float32(32768.0)
        self.end += len(samples)

    def take(self, start: int, end: int) -> npt.NDArray[np.float32]:
        """A copy of [start, end), zeros before the recording's start and behind what there is of it.

        What was forgotten must not be asked for again.
        """
        if max(start, 0) < min(self._start, end):
            raise ValueError(f"expected a start of at least {self._start}, got {start}")
        taken = np.zeros(end - start, np.float32)
        first, last = max(start, self._start), min(end, self.end)
        if first < last:
            taken[first - start : last - start] = self._buffer[first - self._start : last - self._start]
        return taken

    def forget(self, before: int) -> None:
        """Give up the samples before ``before``."""
        before = min(before, self.end)
        if before <= self._start:
            return
        kept = self._buffer[before - self._start : self.end - self._start]
        if len(self._buffer) > 4 * len(kept):
            self._buffer = kept.copy()
        else:
            self._buffer[: len(kept)] = kept.copy()
        self._start = before


class BlockFeed:
    """Cuts a recording that is still going on into the blocks that ``plan_blocks`` gives for all of it.

    >>> feed = BlockFeed(Geometry(10, 5, 2, 3, 2, 4, 3, 2))
    >>> [[b.start for b in feed.full_blocks(end)] for end in (14, 15, 40)]
    [[], [0], [10, 20]]
    >>> [(b.start, b.num_windows) for b in feed.last_block(41)]
    [(30, 2)]
    """

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._next = 0  # index of the block that fills

    @property
    def start(self) -> int:
        """First sample of the block that fills."""
        return self._next * self._geometry.windows_per_block * self._geometry.hop

    def full_blocks(self, num_samples: int) -> list[Block]:
        """The blocks that ``num_samples`` samples have filled since the last call."""
        geometry = self._geometry
        blocks = []
        while self.start + geometry.span_samples() <= num_samples:
            first = self._next * geometry.windows_per_block
            size = geometry.windows_per_block
            blocks.append(Block(self._next, first, size, self.start, geometry.span_samples()))
            self._next += 1
        return blocks

    def last_block(self, num_samples: int) -> list[Block]:
        """The block that the recording's end leaves partly filled, if it does."""
        return list(iter_blocks(self._geometry.num_windows(num_samples), self._geometry))[self._next :]


class StreamingDiarization:
    """One live recording. Its methods are called one after the other.

    run_block: runs a block for the final result. run_windows: runs a few windows for the live view.
    max_samples: the recording must not become longer.
    """

    def __init__(
        self,
        profile: Profile,
        run_block: RunBlock,
        run_windows: RunBlock,
        options: StreamOptions | None = None,
        max_samples: int | None = None,
    ) -> None:
        self._run_block = run_block
        self._run_windows = run_windows
        options = options or StreamOptions()
        self._options = options.options
        self._max_samples = max_samples
        self._view = LiveView(profile, options) if options.live else None
        self._recording = Recording(profile)
        self._feed = BlockFeed(profile.geometry)
        self._tail = AudioTail()
        self._waiting: deque[tuple[Block, npt.NDArray[np.float32]]] = deque()  # the first may be running
        self._running: asyncio.Task[None] | None = None

    @property
    def num_samples(self) -> int:
        """Samples taken so far."""
        return self._tail.end

    async def take(self, samples: Samples) -> None:
        """Take the next samples, of any number.

        A block that they fill is run in the background; one that failed is tried again by the next call.

        Raises InvalidAudio; and what ``run_block`` raised if a second block would have to wait. Samples are
        not taken then.
        """
        self._check(samples)
        await self._run_waiting(MAX_WAITING_BLOCKS)
        self._tail.append(samples)
        self._waiting += [(block, self._span(block)) for block in self._feed.full_blocks(self.num_samples)]
        self._run_next()
        needed = self._feed.start
        if self._view is not None:
            needed = min(needed, self._view.needed_from(self.num_samples))
        self._tail.forget(needed)

    async def look(self) -> LiveUpdate:
        """The live view of what was taken; it has nothing to show without ``StreamOptions.live``.

        If the networks fail the view falls behind for now, and the recording goes on.
        """
        if self._view is None:
            return LiveUpdate(self.num_samples, 0, (), ())
        try:
            for span in self._view.due(self.num_samples):
                self._view.add(span, await self._run_windows(self._tail.take(span.start, span.end)))
        except DiarError as err:
            log.warning("a live view falls behind: %s", err)
        except Exception:
            log.exception("a live view falls behind")
        return self._view.update(self.num_samples)

    async def finish(self, stage: Stage = nullcontext, pool: Executor | None = None) -> Diarization:
        """The final result: the same as ``pipeline.diarize`` gives for all samples.

        pool: where the turns are made out, so that other streams go on; None for the event loop's own. May be
        called again after it raised. Raises InvalidAudio if there were no samples, and what
        ``run_block`` raises.
        """
        if self.num_samples == 0:
            check_samples(np.zeros(0, np.int16), what="the stream")
        with stage("blocks"):
            await self._run_waiting(0)
            for block in self._feed.last_block(self.num_samples):
                self._recording.add(block, await self._run_block(self._span(block)))
        make_out = partial(self._recording.finish, self.num_samples, self._options, stage)
        return await asyncio.get_running_loop().run_in_executor(pool, make_out)

    def close(self) -> None:
        """Run no more blocks for it."""
        self._waiting.clear()

    def _check(self, samples: Samples) -> None:
        if len(samples):
            check_samples(samples)
        total = self.num_samples + len(samples)
        if self._max_samples is not None and total > self._max_samples:
            raise InvalidAudio(
                "E_AUDIO_TOO_LONG", f"got {total} samples in all, expected at most {self._max_samples}"
            )

    def _span(self, block: Block) -> npt.NDArray[np.float32]:
        return self._tail.take(block.start, block.start + block.num_samples)

    async def _run_waiting(self, most: int) -> None:
        """Until at most ``most`` blocks wait."""
        while len(self._waiting) > most:
            self._run_next()
            assert self._running
            await asyncio.shield(self._running)

    def _run_next(self) -> None:
        """Run the first block that waits, unless one is running."""
        if self._waiting and (self._running is None or self._running.done()):
            self._running = asyncio.ensure_future(self._run_first())
            self._running.add_done_callback(self._after_block)

    async def _run_first(self) -> None:
        block, span = self._waiting[0]
        self._recording.add(block, await self._run_block(span))
        if self._waiting:
            self._waiting.popleft()

    def _after_block(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if error := task.exception():  # the block still waits: the next call tries again, and may raise
            log.warning("a block of a stream failed: %s", error)
        else:
            self._run_next()
