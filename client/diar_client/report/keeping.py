"""The sound for a report, made in a thread while the server works on the recording."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from diar.errors import Cancelled
from diar.spans import Samples
from diar_client.report.sound import Sound, keep_sound


class Keeping:
    """For ``with``; on leaving, what is not done yet is given up.

    embed_mb: as for ``keep_sound``; None: no sound.
    """

    def __init__(self, embed_mb: float | None) -> None:
        self._embed_mb = embed_mb
        self._given_up = threading.Event()
        self._task: asyncio.Task[Sound] | None = None

    def __enter__(self) -> Keeping:
        """See the class."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See the class."""
        self._given_up.set()
        if self._task is not None:
            self._task.cancel()

    def begin(self, samples: Samples) -> None:
        """Start with these samples; the second time, when another server is asked, there is nothing to do."""
        if self._embed_mb is not None and self._task is None:
            work = asyncio.to_thread(keep_sound, samples, self._embed_mb, self._check)
            self._task = asyncio.create_task(work)

    async def sound(self) -> Sound | None:
        """What was kept, as soon as it is there."""
        return None if self._task is None else await self._task

    def _check(self) -> None:
        if self._given_up.is_set():
            raise Cancelled("E_CANCELLED", "interrupted")
