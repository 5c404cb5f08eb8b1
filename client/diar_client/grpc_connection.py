"""A connection over gRPC."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from diar.errors import DiarError
from diar_client.access import Access
from diar_client.connection import (
    CONNECT_S,
    NO_SEQUENCE,
    InSequence,
    Parameters,
    Tensor,
    microseconds,
    take_outputs,
    wire_type,
)
from diar_client.failures import ServerRefused, ServerUnreachable, no_answer_in_time, server_error

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


BAD_CERTIFICATE = ("certificate_verify_failed", "hostname verification", "peer name")


class GrpcConnection:
    """See ``EventConnection``. address: ``host:port``. secure: with TLS."""

    def __init__(self, url: str, address: str, access: Access, secure: bool) -> None:
        self.url = url
        self._metadata = access.grpc_metadata()
        self._client = InferenceServerClient(
            address,
            ssl=secure,
            root_certificates=access.ca,
            private_key=access.certificate,  # the file has both
            certificate_chain=access.certificate,
            channel_args=CHANNEL,
        )

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str],
        parameters: Parameters | None = None,
        timeout_s: float | None = None,
        sequence: InSequence = NO_SEQUENCE,
    ) -> dict[str, Tensor]:
        """See ``Connection.infer``."""
        call = self._client.infer(
            model,
            [_input(name, array) for name, array in inputs.items()],
            outputs=[InferRequestedOutput(name) for name in outputs],
            parameters=dict(parameters or {}),
            timeout=microseconds(timeout_s),
            client_timeout=timeout_s,
            sequence_id=sequence.id,
            sequence_start=sequence.start,
            sequence_end=sequence.end,
            headers=self._metadata,
        )
        result = await self._wait(call, no_answer_in_time(self.url))
        return take_outputs(self.url, model, outputs, result)

    async def infer_events(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        output: str,
        parameters: Parameters | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """See ``EventConnection.infer_events``."""

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield {
                "model_name": model,
                "inputs": [_input(name, array) for name, array in inputs.items()],
                "outputs": [InferRequestedOutput(output)],
                "parameters": dict(parameters or {}),
                "timeout": microseconds(timeout_s),
            }

        answers = self._client.stream_infer(requests(), stream_timeout=timeout_s, headers=self._metadata)
        try:
            while True:
                try:
                    result, error = await answers.__anext__()
                except StopAsyncIteration:
                    return
                except grpc.aio.AioRpcError as err:
                    raise self._stream_error(err) from None
                if error is not None:
                    raise self._error(error)
                yield take_outputs(self.url, model, [output], result)[output][0]
        finally:
            answers.cancel()  # if the caller has had enough the job ends there, too

    async def model_config(self, model: str) -> dict[str, Any]:
        """See ``Connection.model_config``."""
        answer = await self._ask(
            self._client.get_model_config(
                model, as_json=True, client_timeout=CONNECT_S, headers=self._metadata
            )
        )
        config: dict[str, Any] = answer["config"]
        return config

    async def is_ready(self, model: str) -> bool:
        """See ``Connection.is_ready``."""
        return bool(
            await self._ask(
                self._client.is_model_ready(model, client_timeout=CONNECT_S, headers=self._metadata)
            )
        )

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
        return self._named(_code(err), err.message() or "")

    def _stream_error(self, err: grpc.aio.AioRpcError) -> DiarError:
        if err.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return no_answer_in_time(self.url)
        return self._named(err.code().name, err.details() or "")

    def _named(self, code: str, message: str) -> DiarError:
        """The error for a gRPC status. Those that the connection's end makes itself are UNAVAILABLE, too."""
        lower = message.lower()
        if code == "UNAVAILABLE" and any(text in lower for text in BAD_CERTIFICATE):
            return ServerRefused.not_trusted(self.url)
        if code == "UNAVAILABLE" and any(text in lower for text in BROKEN_CONNECTION):
            return ServerUnreachable.at(self.url, message)
        return server_error(self.url, code, message)


def _input(name: str, array: Tensor) -> InferInput:
    tensor = InferInput(name, list(array.shape), wire_type(array))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _code(err: InferenceServerException) -> str:
    return str(err.status()).removeprefix("StatusCode.")
