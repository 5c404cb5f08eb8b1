"""Sound that comes as time goes by: a pipe, or a file at the pace at which it was spoken."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

import numpy as np

from diar.profile import SAMPLE_RATE
from diar_client.decode import Pcm

PIECE_SAMPLES = SAMPLE_RATE // 4  # to send at a time, if sound comes no faster


async def paced(samples: Pcm, stop: asyncio.Event) -> AsyncGenerator[Pcm, None]:
    """The samples as they would come from a microphone, all that is due at once; ends early at ``stop``."""
    begin = time.monotonic()
    sent = 0
    while sent < len(samples):
        wait_s = begin + (sent + PIECE_SAMPLES) / SAMPLE_RATE - time.monotonic()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), max(0.0, wait_s))
        heard = min(len(samples), int((time.monotonic() - begin) * SAMPLE_RATE))
        if heard > sent:
            yield samples[sent:heard]
            sent = heard
        if stop.is_set():
            return


async def threaded(source: Iterator[Pcm], stop: asyncio.Event) -> AsyncGenerator[Pcm, None]:
    """What a blocking source gives, all that is there at once; ends with it, or early at ``stop``.

    Raises what the source raises.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Pcm | Exception | None] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # the event loop has ended: nobody listens
            try:
                for samples in source:
                    loop.call_soon_threadsafe(queue.put_nowait, samples)
            except Exception as err:
                loop.call_soon_threadsafe(queue.put_nowait, err)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="diar_client_pipe", daemon=True).start()  # it may hang in a read
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        async for piece in _gather(queue):
            yield piece
    finally:
        stopping.cancel()


async def _gather(queue: asyncio.Queue[Pcm | Exception | None]) -> AsyncGenerator[Pcm, None]:
    """Join what waits in the queue, up to None, into pieces of at least ``PIECE_SAMPLES``."""
    held: list[Pcm] = []
    while True:
        item = await queue.get()
        if isinstance(item, np.ndarray):
            held.append(item)
        enough = sum(map(len, held)) >= PIECE_SAMPLES and queue.empty()
        if held and (enough or not isinstance(item, np.ndarray)):
            yield np.concatenate(held)
            held = []
        if isinstance(item, Exception):
            raise item
        if item is None:
            return
