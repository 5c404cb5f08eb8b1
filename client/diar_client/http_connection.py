"""A connection over HTTP: tritonclient packs and unpacks the bodies, aiohttp carries them.

tritonclient's own asyncio client has one time-out for all requests and hands bodies to aiohttp in one piece.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np
from tritonclient.http import InferInput, InferRequestedOutput
from tritonclient.http.aio import InferenceServerClient
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

SLICE_BYTES = 1 << 20  # of a body, handed to the socket at a time
HEADER_LENGTH = "Inference-Header-Content-Length"


class HttpConnection:
    """See ``Connection``. address: ``http://host:port[/base]``, https if secure."""

    def __init__(self, url: str, address: str, access: Access, secure: bool) -> None:
        self.url = url
        self._base = f"{address}/v2"
        connector = aiohttp.TCPConnector(ssl=access.ssl_context()) if secure else None
        self._session = aiohttp.ClientSession(headers=access.http_headers(), connector=connector)

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
        body, json_length = InferenceServerClient.generate_request_body(
            [_input(name, array) for name, array in inputs.items()],
            outputs=[InferRequestedOutput(name) for name in outputs],
            parameters=dict(parameters or {}),
            timeout=microseconds(timeout_s),
            sequence_id=sequence.id,
            sequence_start=sequence.start,
            sequence_end=sequence.end,
        )
        try:
            headers, answer = await self._request(
                "POST", f"models/{model}/infer", timeout_s, body, json_length
            )
        except asyncio.TimeoutError:
            raise no_answer_in_time(self.url) from None
        try:
            result = InferenceServerClient.parse_response_body(
                answer, header_length=int(headers.get(HEADER_LENGTH, len(answer)))
            )
        except (ValueError, InferenceServerException):
            raise ServerRefused.not_kserve(self.url) from None
        return take_outputs(self.url, model, outputs, result)

    async def model_config(self, model: str) -> dict[str, Any]:
        """See ``Connection.model_config``."""
        try:
            config: dict[str, Any] = json.loads(await self._ask(f"models/{model}/config"))
        except ValueError:
            raise ServerRefused.not_kserve(self.url) from None
        return config

    async def is_ready(self, model: str) -> bool:
        """See ``Connection.is_ready``."""
        try:
            await self._ask(f"models/{model}/ready")
        except (ServerUnreachable, ServerRefused):
            raise
        except DiarError:
            return False
        return True

    async def close(self) -> None:
        """See ``Connection.close``."""
        await self._session.close()

    async def _ask(self, path: str) -> bytes:
        """A question about the server itself: no answer in time means that it is not there."""
        try:
            return (await self._request("GET", path, CONNECT_S))[1]
        except asyncio.TimeoutError:
            reason = f"it did not answer within {CONNECT_S:.0f} s"
            raise ServerUnreachable.at(self.url, reason) from None

    async def _request(
        self,
        method: str,
        path: str,
        timeout_s: float | None,
        body: bytes = b"",
        json_length: int | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of the answer to one request; asyncio.TimeoutError if there is none in time."""
        headers = {"Content-Length": str(len(body))} if body else {}
        if json_length is not None:
            headers[HEADER_LENGTH] = str(json_length)
        try:
            async with self._session.request(
                method,
                f"{self._base}/{path}",
                data=_slices(body) if body else None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
            ) as response:
                answer = await response.read()
        except aiohttp.ServerTimeoutError:
            raise ServerUnreachable.at(self.url, f"no connection within {CONNECT_S:.0f} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise ServerRefused.not_trusted(self.url) from None
        except aiohttp.ClientResponseError:
            raise ServerRefused.not_kserve(self.url) from None
        except (aiohttp.ClientError, ValueError) as err:
            reason = getattr(err, "strerror", None) or str(err) or type(err).__name__
            raise ServerUnreachable.at(self.url, reason) from None
        if response.status != 200:
            raise server_error(self.url, str(response.status), _message(answer))
        return response.headers, answer


async def _slices(body: bytes) -> AsyncIterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(view), SLICE_BYTES):
        yield view[start : start + SLICE_BYTES]


def _input(name: str, array: Tensor) -> InferInput:
    tensor = InferInput(name, list(array.shape), wire_type(array))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _message(answer: bytes) -> str:
    """The text of an error's body: ``{"error": text}``, or whatever else came."""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return answer[:500].decode(errors="replace") or "an empty answer"
