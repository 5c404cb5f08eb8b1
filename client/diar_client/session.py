"""A blocking caller's hold on one server."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from diar_client.background import BackgroundLoop
from diar_client.connection import Connection, open_connection, split_url
from diar_client.retry import Patience

_T = TypeVar("_T")


class Session:
    """Connection, patience and the loop they live in; closed by ``with``, ``close()`` or when forgotten.

    url: ``grpc://host[:port]`` or ``http://host[:port]``. timeout_s: of each call of the caller, retries
    included; None waits for ever. May be used from several threads at once.

    Raises SetupError for a URL of another kind. Nothing is sent yet.
    """

    def __init__(self, url: str, *, timeout_s: float | None, patience: Patience) -> None:
        split_url(url)  # before a thread is started for it
        self.url = url
        self._timeout_s = timeout_s
        self._patience = patience
        self._loop = BackgroundLoop()
        self._connection = self._loop.run(_open(url))
        self._end = weakref.finalize(self, _stop, self._loop, self._connection)

    def close(self) -> None:
        """Give back the connection; closing twice is fine."""
        self._end()

    def __enter__(self: _S) -> _S:
        """Nothing is sent yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run(work)


_S = TypeVar("_S", bound=Session)


async def _open(url: str) -> Connection:
    return open_connection(url)


def _stop(loop: BackgroundLoop, connection: Connection) -> None:
    loop.stop(connection.close())
