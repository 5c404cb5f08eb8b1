"""A caller's hold on one server: in the caller's event loop, or in one of our own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Generic, TypeVar

from diar.errors import SetupError
from diar_client.access import Access
from diar_client.background import BackgroundLoop
from diar_client.connection import Connection, open_connection, split_url
from diar_client.retry import Patience

_T = TypeVar("_T")


class AsyncSession:
    """A connection for one event loop, made when it is first needed; closed by ``async with`` or ``close()``.

    url: ``grpc://host[:port]`` or ``http://host[:port]``, with TLS ``grpcs://`` or ``https://``. api_key:
    sent with every request. ca: PEM file of the authority that vouches for the server, if it is not a public
    one. certificate: PEM file of the caller's own certificate and key, if the server wants one. timeout_s: of
    each call, retries included; None waits for ever.

    Raises SetupError for a URL, a key or a file that is none. Nothing is sent yet.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        ca: str | os.PathLike[str] | None,
        certificate: str | os.PathLike[str] | None,
        timeout_s: float | None,
        patience: Patience,
    ) -> None:
        scheme, _ = split_url(url)
        self._access = Access(api_key, ca, certificate)
        if self._access.needs_tls and not scheme.endswith("s"):
            raise SetupError(
                "E_SETUP_CA",
                f"{url} is not encrypted: expected grpcs:// or https:// with a ca or certificate",
            )
        self.url = url
        self._timeout_s = timeout_s
        self._patience = patience
        self._made: Connection | None = None

    @property
    def _connection(self) -> Connection:
        """To be asked for in the event loop only."""
        if self._made is None:
            self._made = open_connection(self.url, self._access)
        return self._made

    async def close(self) -> None:
        """Give back the connection; closing twice is fine."""
        if self._made is not None:
            connection, self._made = self._made, None
            await connection.close()

    async def __aenter__(self: _A) -> _A:
        """Nothing is sent yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


_A = TypeVar("_A", bound=AsyncSession)


class Session(Generic[_A]):
    """Runs an AsyncSession for blocking callers; closed by ``with``, ``close()`` or when forgotten.

    May be used from several threads at once.
    """

    def __init__(self, inner: _A) -> None:
        self.url = inner.url
        self._inner = inner
        self._loop = BackgroundLoop()
        self._end = weakref.finalize(self, _stop, self._loop, inner)

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

    def run_async(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Block until ``work``, which uses this session's connection, is done in its event loop."""
        return self._loop.run(work)


_S = TypeVar("_S", bound=Session[Any])


def _stop(loop: BackgroundLoop, inner: AsyncSession) -> None:
    loop.stop(inner.close())
