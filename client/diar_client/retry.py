"""Trying again, for as long as the caller is willing to wait."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from diar.errors import DiarError
from diar_client.failures import RETRYABLE, no_answer_in_time

_T = TypeVar("_T")


@dataclass(frozen=True)
class Deadline:
    """``timeout_s`` from now; None never passes."""

    timeout_s: float | None
    _start: float = field(default_factory=time.monotonic)

    def left_s(self) -> float | None:
        """Seconds left, at least 0; None for no deadline."""
        return None if self.timeout_s is None else max(0.0, self._start + self.timeout_s - time.monotonic())


@dataclass(frozen=True)
class Patience:
    """How often to try again what may succeed later: ``retries`` times, after 0.5, 1, 2 … s (8 at most).

    In all these are 55 s: a server that is started again is there by then. tell: called with each failure
    that is followed by another try.
    """

    retries: int = 10
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    tell: Callable[[DiarError], object] = field(default=lambda error: None, compare=False)

    def wait_s(self, attempt: int) -> float:
        """Seconds to wait after failure ``attempt`` (0, 1, …), spread so that clients do not meet."""
        wait_s: float = min(self.longest_wait_s, self.first_wait_s * 2.0**attempt)
        return wait_s * random.uniform(0.75, 1.25)


PATIENT = Patience()


async def persist(
    attempt: Callable[[float | None], Awaitable[_T]], deadline: Deadline, patience: Patience, url: str
) -> _T:
    """Call ``attempt`` with the seconds left until it succeeds.

    Raises its error if that is not worth a retry, the last one when retries or time have run out; Cancelled
    if the time was over before the first attempt.
    """
    for failures in range(patience.retries + 1):
        left_s = deadline.left_s()
        if left_s == 0:
            raise no_answer_in_time(url)
        try:
            return await attempt(left_s)
        except RETRYABLE as err:
            wait_s = patience.wait_s(failures)
            left_s = deadline.left_s()
            if failures == patience.retries or (left_s is not None and left_s <= wait_s):
                raise
            patience.tell(err)
            await asyncio.sleep(wait_s)
    raise AssertionError("unreachable: the last failure is raised")
