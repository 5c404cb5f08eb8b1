"""The Python interface: recordings in, speaker turns out."""

from __future__ import annotations

import os
from typing import Any

from diar.pipeline import Progress
from diar.result import Diarization
from diar_client.aio import AsyncDiarizationClient, Mode
from diar_client.blocks import BlockRun
from diar_client.recordings import Audio
from diar_client.retry import PATIENT, Patience
from diar_client.session import Session
from diar_client.stream import Stream


class DiarizationClient(Session[AsyncDiarizationClient]):
    """Diarizes recordings on a server. See ``AsyncSession`` for the parameters.

    ::

        with DiarizationClient("grpc://127.0.0.1:8001") as client:
            print(client.diarize("meeting.mp3", num_speakers=3).to_rttm())
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

    def diarize(
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
        that are longer than the server takes. progress: called with blocks done and in all, from another
        thread; with ``server`` over gRPC only, and if the server has the model ``diarize_events``.

        Warns AudioWarning about a file that could be read only in part.

        Raises InvalidAudio, InvalidOption; Overloaded, NetsUnavailable, ServerUnreachable after retries;
        ServerRefused if it is not a server for this client; Cancelled when ``timeout_s`` is over.
        """
        return self.run_async(
            self._inner.diarize(
                audio,
                num_speakers=num_speakers,
                min_speakers=min_speakers,
                max_speakers=max_speakers,
                file_id=file_id,
                timings=timings,
                channel=channel,
                mode=mode,
                progress=progress,
            )
        )

    def blocks(
        self,
        audio: Audio,
        *,
        num_speakers: int | None = None,
        min_speakers: int | None = None,
        max_speakers: int | None = None,
        file_id: str | None = None,
        timings: bool = False,
        channel: int | None = None,
    ) -> BlockRun:
        """Diarize in blocks, step by step: iterate over what is returned, then ask for its ``result()``.

        After an error, iterating again goes on with the blocks that are missing. Raises as ``diarize`` does.
        """
        run = self._inner.blocks(
            audio,
            num_speakers=num_speakers,
            min_speakers=min_speakers,
            max_speakers=max_speakers,
            file_id=file_id,
            timings=timings,
            channel=channel,
        )
        return BlockRun(self, self.run_async(run))

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
    ) -> Stream:
        """Diarize a recording while it is made. Nothing is sent yet.

        latency: seconds until a turn is final in the live view (0.5 to 5); step: between two looks at it;
        None for the server's own. The speaker counts are for the final result; the live view keeps to the
        greatest one. ::

            with client.stream(latency=1.0) as stream:
                for update in stream.updates(pieces_of_16_khz_mono):
                    print(update.committed, update.tentative)
            print(stream.result.to_rttm())
        """
        return self.run_async(
            self._stream(
                latency=latency,
                step=step,
                num_speakers=num_speakers,
                min_speakers=min_speakers,
                max_speakers=max_speakers,
                file_id=file_id,
                timings=timings,
            )
        )

    async def _stream(self, **wishes: Any) -> Stream:
        return Stream(self, self._inner.stream(**wishes))  # the connection is made in the event loop
