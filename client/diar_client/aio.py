"""The Python interface for asyncio: recordings in, speaker turns out."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Literal

from diar.errors import InvalidOption
from diar.options import Options
from diar.pipeline import Progress
from diar.profile import SAMPLE_RATE, Profile
from diar.result import Diarization
from diar.spans import Samples
from diar.tensors import DIARIZE
from diar_client.blocks import AsyncBlockRun
from diar_client.decode import AudioWarning
from diar_client.failures import RETRYABLE
from diar_client.recordings import Audio, load, name_of
from diar_client.retry import PATIENT, Deadline, Patience, persist
from diar_client.served import Served, ask, learn
from diar_client.session import AsyncSession
from diar_client.stream import AsyncStream
from diar_client.whole import can_report, diarize_whole, request_parameters

Mode = Literal["auto", "server", "blocks"]
MODES = ("auto", "server", "blocks")


class AsyncDiarizationClient(AsyncSession):
    """Diarizes recordings on a server, for a running event loop. See ``AsyncSession`` for the parameters.

    ::

        async with AsyncDiarizationClient("grpc://127.0.0.1:8001") as client:
            print((await client.diarize("meeting.mp3", num_speakers=3)).to_rttm())
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
            url, api_key=api_key, ca=ca, certificate=certificate, timeout_s=timeout_s, patience=patience
        )
        self._served: Served | None = None
        self._reports: bool | None = None

    async def diarize(
        self,
        audio: Audio,
        *,
        num_speakers: int | None = None,
        min_speakers: int | None = None,
        max_speakers: int | None = None,
        file_id: str | None = None,
        timings: bool = False,
        channel: int | None = None,
        mode: Mode = "auto",
        progress: Progress | None = None,
    ) -> Diarization:
        """Find out who spoke when.

        audio: path of a sound or video file, or (samples,) 16 kHz mono, float in [-1, 1] or int16.
        num_speakers: the exact count; or min_speakers and max_speakers. file_id: names the recording in RTTM
        (default: the file's name without extension). channel: of the file, from 0; None averages all.
        mode: ``server`` sends the whole recording to the model ``diarize``; ``blocks`` sends block after
        block to the networks and does the rest here, with the same result; ``auto`` does that for recordings
        that are longer than the server takes. progress: called with blocks done and in all, in
        the event loop (DiarizationClient: from another thread); with ``server`` over gRPC only, and if the
        server has the model ``diarize_events``.

        Warns AudioWarning about a file that could be read only in part.

        Raises InvalidAudio, InvalidOption; Overloaded, NetsUnavailable, ServerUnreachable after retries;
        ServerRefused if it is not a server for this client; Cancelled when ``timeout_s`` is over.
        """
        options = _options(audio, file_id, num_speakers, min_speakers, max_speakers, timings)
        return await self.diarize_loaded(
            lambda: _load(audio, channel), options, mode, progress, lambda num_samples: self._timeout_s
        )

    async def diarize_loaded(
        self,
        load: Callable[[], Awaitable[Samples]],
        options: Options,
        mode: Mode,
        progress: Progress | None,
        timeout_s: Callable[[int], float | None],
    ) -> Diarization:
        """``diarize`` what ``load`` gives; block mode gives the samples up before it clusters.

        timeout_s: for so many samples.
        """
        if mode not in MODES:
            raise InvalidOption("E_OPTION_MODE", f"mode: got {mode!r}, expected one of {', '.join(MODES)}")
        samples = await load()
        deadline = Deadline(timeout_s(len(samples)))
        if await self._in_blocks(mode, len(samples), deadline):
            run = AsyncBlockRun(self._connection, samples, options, lambda: deadline, self._patience)
            del samples
            return await _finish(run, progress)
        report = progress if progress and await self._can_report(deadline) else None
        return await persist(
            lambda left_s: diarize_whole(self._connection, samples, options, left_s, report),
            deadline,
            self._patience,
            self.url,
        )

    async def blocks(
        self,
        audio: Audio,
        *,
        num_speakers: int | None = None,
        min_speakers: int | None = None,
        max_speakers: int | None = None,
        file_id: str | None = None,
        timings: bool = False,
        channel: int | None = None,
    ) -> AsyncBlockRun:
        """Diarize in blocks, step by step: iterate over what is returned, then ask for its ``result()``.

        After an error, iterating again goes on with the blocks that are missing. Raises as ``diarize`` does.
        """
        options = _options(audio, file_id, num_speakers, min_speakers, max_speakers, timings)
        samples = await _load(audio, channel)
        return AsyncBlockRun(
            self._connection, samples, options, lambda: Deadline(self._timeout_s), self._patience
        )

    def stream(
        self,
        *,
        latency: float | None = None,
        step: float | None = None,
        num_speakers: int | None = None,
        min_speakers: int | None = None,
        max_speakers: int | None = None,
        file_id: str = "recording",
        timings: bool = False,
    ) -> AsyncStream:
        """Diarize a recording while it is made. Nothing is sent yet.

        latency: seconds until a turn is final in the live view (0.5 to 5); step: between two looks at it;
        None for the server's own. The speaker counts are for the final result; the live view keeps to the
        greatest one. ::

            async with client.stream(latency=1.0) as stream:
                async for update in stream.updates(pieces_of_16_khz_mono):
                    print(update.committed, update.tentative)
            print(stream.result.to_rttm())
        """
        options = _options("", file_id, num_speakers, min_speakers, max_speakers, timings)
        live = {name: value for name, value in (("latency", latency), ("step", step)) if value is not None}
        return AsyncStream(
            self._connection, request_parameters(options), live, self._timeout_s, self._patience
        )

    async def profile(self) -> Profile:
        """What the server serves, asked once."""
        return (await self._learn(Deadline(self._timeout_s))).profile

    async def _learn(self, deadline: Deadline) -> Served:
        if self._served is None:
            self._served = await ask(
                self._connection, lambda: learn(self._connection, DIARIZE), deadline, self._patience
            )
        return self._served

    async def _in_blocks(self, mode: Mode, num_samples: int, deadline: Deadline) -> bool:
        if mode == "blocks":
            return True
        limit_s = (await self._learn(deadline)).max_recording_s
        return mode == "auto" and limit_s is not None and num_samples > limit_s * SAMPLE_RATE

    async def _can_report(self, deadline: Deadline) -> bool:
        if self._reports is None:
            self._reports = await ask(
                self._connection, lambda: can_report(self._connection), deadline, self._patience
            )
        return self._reports


async def _finish(run: AsyncBlockRun, progress: Progress | None) -> Diarization:
    """Run all blocks. After a failure that may pass it goes on, as long as that brings it any further."""
    while True:
        before = run.num_done
        try:
            async for block in run:
                if progress:
                    progress(block.done, block.total)
            return await run.result()
        except RETRYABLE:
            if run.num_done == before:
                raise


def _options(
    audio: Audio,
    file_id: str | None,
    num_speakers: int | None,
    min_speakers: int | None,
    max_speakers: int | None,
    timings: bool,
) -> Options:
    wishes = {
        "num_speakers": num_speakers,
        "min_speakers": min_speakers,
        "max_speakers": max_speakers,
        "file_id": name_of(audio) if file_id is None else file_id,
        "timings": timings,
    }
    return Options.from_parameters({name: wish for name, wish in wishes.items() if wish is not None})


async def _load(audio: Audio, channel: int | None) -> Samples:
    """``load`` beside the event loop; notes are warnings."""
    notes: list[str] = []
    samples = await asyncio.to_thread(load, audio, channel, notes.append)
    for text in notes:
        warnings.warn(AudioWarning(text), stacklevel=3)
    return samples
