"""Which ``diar_nn`` may be sent blocks; one that failed may not, until it is healed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from diar.board import BROKEN, Board

TRIAL_S = 30.0  # without a supervisor: how long until one that failed is tried again

log = logging.getLogger(__name__)


class Breaker:
    """A circuit breaker for each ``diar_nn``.

    With a board it is common to all models of the server: opened by whoever sees a failure, closed by the
    supervisor. Without one it is this instance's own and closes by itself after TRIAL_S.
    """

    def __init__(self, board: Board | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._board = board
        self._clock = clock
        self._failed: dict[str, float] = {}

    @property
    def is_watched(self) -> bool:
        """Whether there is somebody who heals."""
        return self._board is not None

    def is_open(self, model: str) -> bool:
        """Whether nothing may be sent to ``model``."""
        if self._board is not None:
            return self._board.trouble(model) is not None
        return self._clock() < self._failed.get(model, -TRIAL_S) + TRIAL_S

    def is_hopeless(self, model: str) -> bool:
        """Whether ``model`` will not be back soon."""
        if self._board is None:
            return self.is_open(model)
        trouble = self._board.trouble(model)
        return trouble is not None and (trouble.startswith(BROKEN) or not self._board.is_kept)

    def trip(self, model: str, reason: str) -> None:
        """Send nothing more to ``model``, and tell the supervisor."""
        log.warning("nothing more is sent to %s: %s", model, reason)
        if self._board is not None:
            self._board.report(model, reason)
        else:
            self._failed[model] = self._clock()
