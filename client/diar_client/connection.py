"""One way to talk to a Triton server, over gRPC or HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from diar.errors import SetupError
from diar_client.access import Access
from diar_client.failures import ServerRefused

Tensor = npt.NDArray[Any]  # BYTES tensors are arrays of bytes objects
Parameters = Mapping[str, str | int | float | bool]

CONNECT_S = 10.0  # a server that lives answers a question about itself within this
DEFAULT_PORTS = {"grpc": 8001, "grpcs": 8001, "http": 8000, "https": 443}


@dataclass(frozen=True)
class InSequence:
    """Which sequence of Triton's a request belongs to, and whether it begins or ends it."""

    id: int
    start: bool = False
    end: bool = False


NO_SEQUENCE = InSequence(0)


class Connection(Protocol):
    """A connection that lives in one event loop. All methods raise errors of ``diar.errors`` only."""

    url: str

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str],
        parameters: Parameters | None = None,
        timeout_s: float | None = None,
        sequence: InSequence = NO_SEQUENCE,
    ) -> dict[str, Tensor]:
        """Run ``model`` once and return the named outputs.

        timeout_s: told to the server too (it drops a request that has waited longer); None waits for ever.
        """

    async def model_config(self, model: str) -> dict[str, Any]:
        """The configuration that the server resolved for ``model``, as in JSON."""

    async def is_ready(self, model: str) -> bool:
        """Whether ``model`` is there and loaded."""

    async def close(self) -> None:
        """Give back the connection."""


@runtime_checkable
class EventConnection(Connection, Protocol):
    """A connection to models that answer one request several times."""

    def infer_events(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        output: str,
        parameters: Parameters | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Run ``model`` once; yields the text in its BYTES ``output``, answer after answer."""


def open_connection(url: str, access: Access) -> Connection:
    """Make a connection; to be called in the event loop that will use it. Nothing is sent yet.

    url: as ``split_url`` takes it. SetupError for another one.
    """
    scheme, address = split_url(url)
    secure = scheme.endswith("s")
    if scheme.startswith("grpc"):
        from diar_client.grpc_connection import GrpcConnection  # one protocol's libraries, not both

        return GrpcConnection(url, address, access, secure)
    from diar_client.http_connection import HttpConnection

    return HttpConnection(url, f"{scheme}://{address}", access, secure)


def split_url(url: str) -> tuple[str, str]:
    """Check a server's URL and split it into protocol and address, with the protocol's usual port.

    >>> split_url("grpc://127.0.0.1"), split_url("https://[::1]:9000/diar/")
    (('grpc', '127.0.0.1:8001'), ('https', '[::1]:9000/diar'))
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or (parts.scheme[:4] == "grpc" and parts.path):
        raise SetupError(
            "E_SETUP_URL",
            f"got the server URL {url!r}, expected grpc://host:port or http://host:port (or grpcs, https)",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, f"{host}:{port or DEFAULT_PORTS[parts.scheme]}{parts.path.rstrip('/')}"


def wire_type(array: Tensor) -> str:
    """Triton's name for an input's dtype.

    >>> wire_type(np.zeros(1, np.int16))
    'INT16'
    """
    return {np.dtype(np.float32): "FP32", np.dtype(np.int16): "INT16"}[array.dtype]


def take_outputs(url: str, model: str, names: Sequence[str], result: Any) -> dict[str, Tensor]:
    """The outputs ``names`` of a tritonclient result; ServerRefused if one is missing."""
    outputs = {name: result.as_numpy(name) for name in names}
    if missing := [name for name, array in outputs.items() if array is None]:
        raise ServerRefused("E_SERVER_RESULT", f"{url}: {model} answered without {', '.join(missing)}")
    return outputs


def microseconds(timeout_s: float | None) -> int | None:
    """A time-out as Triton's request parameter takes it."""
    return None if timeout_s is None else max(1, round(timeout_s * 1e6))
