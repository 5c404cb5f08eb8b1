"""Ctrl-C, as a cancellation that leaves time to clean up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def on_interrupt(call: Callable[[], object]) -> Iterator[None]:
    """Inside, the first Ctrl-C calls ``call`` in the running event loop; the next one ends the program.

    Where event loops cannot do that (Windows, or outside the main thread) Ctrl-C does what it always does.
    """
    loop = asyncio.get_running_loop()

    def first() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        call()

    try:
        loop.add_signal_handler(signal.SIGINT, first)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def cancel_on_interrupt() -> AbstractContextManager[None]:
    """Inside, the first Ctrl-C cancels the task that is running now."""
    task = asyncio.current_task()
    assert task is not None
    return on_interrupt(task.cancel)
