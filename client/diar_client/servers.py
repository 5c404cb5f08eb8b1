"""Several servers as one: each recording goes to the one that has least to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from diar.errors import DiarError
from diar.options import Options
from diar.pipeline import Progress
from diar.profile import SAMPLE_RATE, Profile
from diar.result import Diarization
from diar.spans import Samples
from diar_client.aio import AsyncDiarizationClient, Mode
from diar_client.failures import ServerRefused, ServerUnreachable

LEAST_TIMEOUT_S = 3600.0

_T = TypeVar("_T")


@dataclass
class _Server:
    client: AsyncDiarizationClient
    jobs: int = 0
    error: DiarError | None = None  # why it is not asked any more


class Servers:
    """Use it with ``async with``. lost: called with why a server is not asked any more while others are."""

    def __init__(self, clients: Sequence[AsyncDiarizationClient], lost: Callable[[str], None]) -> None:
        self._servers = [_Server(client) for client in clients]
        self._lost = lost
        self._stack = AsyncExitStack()

    def __len__(self) -> int:
        """How many there are, working or not."""
        return len(self._servers)

    async def __aenter__(self) -> Servers:
        """Nothing is sent yet."""
        for server in self._servers:
            await self._stack.enter_async_context(server.client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def profile(self) -> Profile:
        """What the first server that answers serves. Raises as ``diarize`` does."""
        return await self._on_one(lambda client: client.profile())

    async def diarize(
        self,
        load: Callable[[], Awaitable[Samples]],
        options: Options,
        mode: Mode = "auto",
        progress: Progress | None = None,
        timeout_s: float | None = None,
    ) -> Diarization:
        """Diarize what ``load`` gives on one of them; on another if that one is lost.

        timeout_s: None for an hour, or the recording's length if that is more.

        Raises ServerUnreachable or ServerRefused, that of the last one, when all of them are.
        """

        def limit_s(num_samples: int) -> float:
            return timeout_s or max(LEAST_TIMEOUT_S, num_samples / SAMPLE_RATE)

        return await self._on_one(
            lambda client: client.diarize_loaded(load, options, mode, progress, limit_s)
        )

    async def _on_one(self, ask: Callable[[AsyncDiarizationClient], Coroutine[Any, Any, _T]]) -> _T:
        while True:
            working = [server for server in self._servers if server.error is None]
            if not working and (error := self._servers[-1].error):
                raise error
            server = min(working, key=lambda server: server.jobs)
            server.jobs += 1
            try:
                return await ask(server.client)
            except (ServerUnreachable, ServerRefused) as err:
                first, server.error = server.error is None, err
                if all(other.error for other in self._servers):
                    raise
                if first:
                    self._lost(f"{err.text}; going on without it")
            finally:
                server.jobs -= 1
