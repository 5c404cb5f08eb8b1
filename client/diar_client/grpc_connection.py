"""A connection over gRPC."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from diar.errors import DiarError
from diar_client.connection import (
    CONNECT_S,
    Parameters,
    Tensor,
    microseconds,
    take_outputs,
    wire_type,
)
from diar_client.failures import ServerUnreachable, no_answer_in_time, server_error

_T = TypeVar("_T")

CHANNEL = [
    ("grpc.max_send_message_length", -1),  # no limit but gRPC's own 2 GiB: 4 h of PCM are 461 MB
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 200),  # a server that restarts is found again soon
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
BROKEN_CONNECTION = (  # gRPC reports these as UNAVAILABLE itself: no server said so
    "failed to connect",
    "connection refused",
    "connection reset",
    "socket closed",
    "broken pipe",
    "dns resolution failed",
    "errors resolving",
    "name resolution failure",
    "stream removed",
    "goaway",
    "connection attempt timed out",
    "endpoint closing",
    "transport closed",
    "recvmsg",
    "sendmsg",
)


class GrpcConnection:
    """See ``Connection``. address: ``host:port``."""

    def __init__(self, url: str, address: str) -> None:
        self.url = url
        self._client = InferenceServerClient(address, channel_args=CHANNEL)

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str],
        parameters: Parameters | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Tensor]:
        """See ``Connection.infer``."""
        call = self._client.infer(
            model,
            [_input(name, array) for name, array in inputs.items()],
            outputs=[InferRequestedOutput(name) for name in outputs],
            parameters=dict(parameters or {}),
            timeout=microseconds(timeout_s),
            client_timeout=timeout_s,
        )
        result = await self._wait(call, no_answer_in_time(self.url))
        return take_outputs(self.url, model, outputs, result)

    async def model_config(self, model: str) -> dict[str, Any]:
        """See ``Connection.model_config``."""
        answer = await self._ask(self._client.get_model_config(model, as_json=True, client_timeout=CONNECT_S))
        config: dict[str, Any] = answer["config"]
        return config

    async def is_ready(self, model: str) -> bool:
        """See ``Connection.is_ready``."""
        return bool(await self._ask(self._client.is_model_ready(model, client_timeout=CONNECT_S)))

    async def close(self) -> None:
        """See ``Connection.close``."""
        await self._client.close()

    async def _ask(self, question: Awaitable[_T]) -> _T:
        """A question about the server itself: no answer in time means that it is not there."""
        late = ServerUnreachable.at(self.url, f"it did not answer within {CONNECT_S:.0f} s")
        return await self._wait(question, late)

    async def _wait(self, call: Awaitable[_T], late: DiarError) -> _T:
        try:
            return await call
        except InferenceServerException as err:
            if _code(err) == "DEADLINE_EXCEEDED":
                raise late from None
            raise self._error(err) from None

    def _error(self, err: InferenceServerException) -> DiarError:
        code, message = _code(err), err.message() or ""
        if code == "UNAVAILABLE" and any(text in message.lower() for text in BROKEN_CONNECTION):
            return ServerUnreachable.at(self.url, message)
        return server_error(self.url, code, message)


def _input(name: str, array: Tensor) -> InferInput:
    tensor = InferInput(name, list(array.shape), wire_type(array))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _code(err: InferenceServerException) -> str:
    return str(err.status()).removeprefix("StatusCode.")
