"""The Python interface: recordings in, speaker turns out."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from diar_client.aio import AsyncDiarizationClient
from diar_client.blocks import BlockRun
from diar_client.retry import PATIENT, Patience
from diar_client.session import Session
from diar_client.stream import Stream

_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")
_Given = TypeVar("_Given")


def _blocking(
    method: Callable[Concatenate[AsyncDiarizationClient, _P], Coroutine[Any, Any, _Answer]],
    give: Callable[[DiarizationClient, _Answer], _Given],
) -> Callable[Concatenate[DiarizationClient, _P], _Given]:
    """The method for blocking callers. give: what they are given of its answer."""

    @wraps(method)
    def call(self: DiarizationClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _Given:
        return give(self, self.run_async(method(self._inner, *args, **kwargs)))

    return call


def _in_event_loop(method: Callable[_P, _Answer]) -> Callable[_P, Coroutine[Any, Any, _Answer]]:
    @wraps(method)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _Answer:
        return method(*args, **kwargs)

    return call


class DiarizationClient(Session[AsyncDiarizationClient]):
    """An AsyncDiarizationClient for blocking callers, from any thread; its methods mean the same.

    ::

        with DiarizationClient("grpc://127.0.0.1:8001") as client:
            print(client.diarize("meeting.mp3", num_speakers=3).to_rttm())

            with client.stream(latency=1.0) as stream:
                for update in stream.updates(pieces_of_16_khz_mono):
                    print(update.committed, update.tentative)
            print(stream.result.to_rttm())
    """

    def __init__(
        self,
        url: str = "grpc://127.0.0.1:8001",
        *,
        api_key: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        timeout_s: float | None = 3600.0,
        patience: Patience = PATIENT,
    ) -> None:
        super().__init__(
            AsyncDiarizationClient(
                url, api_key=api_key, ca=ca, certificate=certificate, timeout_s=timeout_s, patience=patience
            )
        )

    diarize = _blocking(AsyncDiarizationClient.diarize, lambda client, result: result)
    blocks = _blocking(AsyncDiarizationClient.blocks, BlockRun)
    profile = _blocking(AsyncDiarizationClient.profile, lambda client, profile: profile)
    stream = _blocking(_in_event_loop(AsyncDiarizationClient.stream), Stream)
