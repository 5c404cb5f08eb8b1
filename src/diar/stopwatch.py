"""Seconds by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up the seconds that pass inside ``with stopwatch("stage"):``.

    begin: called with the stage's name when it begins.
    """

    def __init__(self, begin: Callable[[str], None] = lambda stage: None) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = begin

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what runs inside."""
        self._begin(stage)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
