"""A live recording: pieces of sound go to the server as they come, and who speaks comes back at once."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from diar.errors import Cancelled, DiarError, InvalidOption, StreamExpired
from diar.profile import SAMPLE_RATE
from diar.result import Diarization, read_turns
from diar.spans import Samples
from diar.tensors import AUDIO, DIARIZE_STREAM, EMBEDDINGS, PCM, RESULT
from diar.turns import Turn
from diar_client.connection import Connection, InSequence, Parameters, Tensor
from diar_client.decode import as_samples
from diar_client.failures import LATE, RETRYABLE, ServerRefused, ServerUnreachable
from diar_client.retry import Deadline, Patience, persist
from diar_client.session import Session

PIECE_SAMPLES = 20 * SAMPLE_RATE  # of one request: what is pushed at once may be longer
LOST_BY_TRITON = "E_STREAM_EXPIRED"
ANSWER_S, END_ANSWER_S = 60.0, 300.0  # if the model's process dies, what it had taken is never answered
MAY_HAVE_ARRIVED = (*RETRYABLE, Cancelled)  # failures that do not tell whether the server took a piece


@dataclass(frozen=True)
class LiveUpdate:
    """The live view after ``num_samples`` samples of a recording that goes on. All counts are samples.

    committed: turns that have become final since the last update; one that goes on begins in the next update
    where it ended here. tentative: turns behind them, which the next update replaces. latency: how far what
    is final lies behind.
    """

    num_samples: int
    committed: tuple[Turn, ...]
    tentative: tuple[Turn, ...]
    latency: int


class AsyncStream:
    """One live recording on a server; for ``async with``. Its methods are called one after the other.

    What was pushed is sent again after a failure that may pass, and counts once. A piece that could not be
    sent in all the retries or the time is kept, and goes before what is pushed next (or with ``push([])``).
    Leaving the ``with`` block without an error finishes the recording.

    options: as for whole recordings. live: further parameters of the START (latency, step). timeout_s: of
    each call.
    """

    def __init__(
        self,
        connection: Connection,
        options: Parameters,
        live: Mapping[str, float],
        timeout_s: float | None,
        patience: Patience,
    ) -> None:
        self._connection = connection
        self._options = options
        self._live = live
        self._timeout_s = timeout_s
        self._patience = patience
        self._id = 1 + secrets.randbelow(2**63 - 1)  # Triton's text ids collide, small numbers do anyway
        self._token = secrets.token_urlsafe(16)
        self._started = False
        self._result: Diarization | None = None
        self._unsent: deque[Samples] = deque()
        self._committed: list[Turn] = []  # that the caller has not been given yet
        self.num_samples = 0  # that the server has

    @property
    def result(self) -> Diarization:
        """The final result. Raises InvalidOption before ``finish``."""
        if self._result is None:
            raise InvalidOption("E_OPTION_STREAM", "asked for the result of a stream that is not finished")
        return self._result

    async def push(self, samples: npt.ArrayLike) -> LiveUpdate:
        """Send the next samples; who speaks, as far as that is known by now.

        samples: (samples,) 16 kHz mono, float in [-1, 1] or int16, of any length.

        Raises InvalidAudio; Overloaded (too many streams), NetsUnavailable, ServerUnreachable after retries;
        StreamExpired if the server has given up or lost the stream; Cancelled when ``timeout_s`` is over.
        """
        if self._result is not None:
            raise InvalidOption("E_OPTION_STREAM", "the stream is finished: it takes no more samples")
        if np.size(samples):
            checked = as_samples(samples)
            starts = range(0, len(checked), PIECE_SAMPLES)
            self._unsent += [checked[start : start + PIECE_SAMPLES].copy() for start in starts]
        update = await self._send_unsent() or LiveUpdate(self.num_samples, (), (), 0)
        committed, self._committed = tuple(self._committed), []
        return replace(update, committed=committed)

    async def updates(self, pieces: AsyncIterator[npt.ArrayLike]) -> AsyncIterator[LiveUpdate]:
        """``push`` each piece; yields the updates."""
        async for samples in pieces:
            yield await self.push(samples)

    async def finish(self) -> Diarization:
        """End the recording. The same bytes as ``diarize`` gives for all samples; raises as ``push`` does."""
        if self._result is None:
            await self._send_unsent()
            outputs = await self._send(None, end=True)
            try:
                result = Diarization.from_json(
                    outputs[RESULT][0], outputs[EMBEDDINGS], str(self._options["file_id"])
                )
            except (ValueError, KeyError, TypeError) as err:
                raise self._no_answer(err) from None
            self._result = replace(result, num_samples=self.num_samples)
        return self._result

    async def __aenter__(self) -> AsyncStream:
        """Nothing is sent yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish, unless an error or an earlier ``finish`` did, or nothing was pushed."""
        if kind is None and (self.num_samples or self._unsent):
            await self.finish()

    async def _send_unsent(self) -> LiveUpdate | None:
        """Send what waits; the last update, None if there was nothing. What fails waits on if it may help."""
        update = None
        while self._unsent:
            try:
                outputs = await self._send(self._unsent[0], end=False)
            except DiarError as err:
                if not isinstance(err, MAY_HAVE_ARRIVED):
                    self._unsent.clear()
                raise
            self._unsent.popleft()
            update = self._read_update(outputs[RESULT][0])
            self._committed += update.committed
        return update

    async def _send(self, samples: Samples | None, end: bool) -> dict[str, Tensor]:
        outputs = await persist(
            lambda left_s: self._request(samples, end, left_s),
            Deadline(self._timeout_s),
            self._patience,
            self._connection.url,
        )
        self._started = True
        self.num_samples += 0 if samples is None else len(samples)
        return outputs

    async def _request(
        self, samples: Samples | None, end: bool, timeout_s: float | None
    ) -> dict[str, Tensor]:
        """Once, and not for longer than an answer can take."""
        most_s = END_ANSWER_S if end else ANSWER_S
        if timeout_s is not None and timeout_s <= most_s:
            return await self._request_once(samples, end, timeout_s)
        try:
            return await self._request_once(samples, end, most_s)
        except Cancelled as err:
            if err.word != LATE:
                raise
        raise ServerUnreachable.at(self._connection.url, f"none within {most_s:.0f} s")

    async def _request_once(
        self, samples: Samples | None, end: bool, timeout_s: float | None
    ) -> dict[str, Tensor]:
        """Triton forgets a sequence with its END, even one that failed: then START goes on with it."""
        try:
            return await self._infer(samples, not self._started, end, timeout_s)
        except StreamExpired as err:
            if not self._started or err.word != LOST_BY_TRITON:
                raise
        return await self._infer(samples, True, end, timeout_s)

    async def _infer(
        self, samples: Samples | None, start: bool, end: bool, timeout_s: float | None
    ) -> dict[str, Tensor]:
        parameters: dict[str, Any] = {"stream_token": self._token, "first_sample": self.num_samples}
        if not self._started:
            parameters |= {**self._options, **self._live}
        inputs = {}
        if samples is not None:
            inputs[PCM if samples.dtype == np.int16 else AUDIO] = samples
        return await self._connection.infer(
            DIARIZE_STREAM,
            inputs,
            (RESULT, EMBEDDINGS),
            parameters,
            timeout_s,
            InSequence(self._id, start, end),
        )

    def _read_update(self, text: bytes) -> LiveUpdate:
        try:
            document = msgspec.json.decode(text)
            return LiveUpdate(
                round(document["position"] * SAMPLE_RATE),
                read_turns(document["committed"]),
                read_turns(document["tentative"]),
                round(document["latency"] * SAMPLE_RATE),
            )
        except (ValueError, KeyError, TypeError) as err:
            raise self._no_answer(err) from None

    def _no_answer(self, err: Exception) -> ServerRefused:
        url = self._connection.url
        return ServerRefused("E_SERVER_RESULT", f"{url}: {DIARIZE_STREAM} did not answer as expected: {err}")


class Stream:
    """An AsyncStream for blocking callers; for ``with``."""

    def __init__(self, session: Session[Any], inner: AsyncStream) -> None:
        self._session = session
        self._inner = inner

    @property
    def num_samples(self) -> int:
        """That the server has."""
        return self._inner.num_samples

    @property
    def result(self) -> Diarization:
        """See ``AsyncStream.result``."""
        return self._inner.result

    def push(self, samples: npt.ArrayLike) -> LiveUpdate:
        """See ``AsyncStream.push``."""
        return self._session.run_async(self._inner.push(samples))

    def updates(self, pieces: Iterable[npt.ArrayLike]) -> Iterator[LiveUpdate]:
        """``push`` each piece; yields the updates."""
        return map(self.push, pieces)

    def finish(self) -> Diarization:
        """See ``AsyncStream.finish``."""
        return self._session.run_async(self._inner.finish())

    def __enter__(self) -> Stream:
        """Nothing is sent yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See ``AsyncStream``."""
        self._session.run_async(self._inner.__aexit__(kind, error, trace))
