"""The Python interface: recordings in, speaker turns out."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy.typing as npt

from diar.errors import InvalidOption
from diar.options import Options
from diar.pipeline import Progress
from diar.result import Diarization
from diar.spans import Samples
from diar.tensors import AUDIO, DIARIZE, EMBEDDINGS, PCM, RESULT
from diar_client.blocks import diarize_in_blocks
from diar_client.connection import Connection, Parameters, Tensor
from diar_client.decode import AudioWarning, as_samples, decode_file
from diar_client.failures import ServerRefused
from diar_client.retry import PATIENT, Deadline, Patience, persist
from diar_client.served import learn_profile
from diar_client.session import Session

Mode = Literal["server", "blocks"]


class DiarizationClient(Session):
    """Diarizes recordings on a server. See ``Session`` for url, timeout_s and closing.

    ::

        with DiarizationClient("grpc://127.0.0.1:8001") as client:
            print(client.diarize("meeting.mp3", num_speakers=3).to_rttm())
    """

    def __init__(
        self,
        url: str = "grpc://127.0.0.1:8001",
        *,
        timeout_s: float | None = 3600.0,
        patience: Patience = PATIENT,
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, patience=patience)
        self._known = False

    def diarize(
        self,
        audio: str | os.PathLike[str] | npt.ArrayLike,
        *,
        num_speakers: int | None = None,
        min_speakers: int | None = None,
        max_speakers: int | None = None,
        file_id: str | None = None,
        timings: bool = False,
        channel: int | None = None,
        mode: Mode = "server",
        progress: Progress | None = None,
    ) -> Diarization:
        """Find out who spoke when.

        audio: path of a sound or video file, or (samples,) 16 kHz mono, float in [-1, 1] or int16.
        num_speakers: the exact count; or min_speakers and max_speakers. file_id: names the recording in RTTM
        (default: the file's name without extension). channel: of the file, from 0; None averages all.
        mode: ``server`` sends the whole recording to the model ``diarize``; ``blocks`` sends block after
        block to the networks and does the rest here, with the same result. progress: called with blocks done
        and in all, from another thread; by ``blocks`` only.

        Warns AudioWarning about a file that could be read only in part.

        Raises InvalidAudio, InvalidOption; Overloaded, NetsUnavailable, ServerUnreachable after retries;
        ServerRefused if it is not a server for this client; Cancelled when ``timeout_s`` is over.
        """
        if mode not in ("server", "blocks"):
            raise InvalidOption("E_OPTION_MODE", f"mode: got {mode!r}, expected 'server' or 'blocks'")
        wishes = {
            "num_speakers": num_speakers,
            "min_speakers": min_speakers,
            "max_speakers": max_speakers,
            "file_id": file_id if file_id is not None else _name(audio),
            "timings": timings or None,
        }
        parameters = {name: wish for name, wish in wishes.items() if wish is not None}
        options = Options.from_parameters(parameters)
        samples = _samples(audio, channel)
        deadline = Deadline(self._timeout_s)
        if mode == "blocks":
            report = progress or (lambda done, total: None)
            return self._run(
                diarize_in_blocks(self._connection, samples, options, deadline, self._patience, report)
            )
        return self._run(self._on_server(samples, options, parameters, deadline))

    async def _on_server(
        self, samples: Samples, options: Options, parameters: Parameters, deadline: Deadline
    ) -> Diarization:
        if not self._known:
            await learn_profile(self._connection, DIARIZE)
            self._known = True
        outputs = await persist(
            lambda left_s: _request(self._connection, samples, parameters, left_s),
            deadline,
            self._patience,
            self.url,
        )
        try:
            result = Diarization.from_json(outputs[RESULT][0], outputs[EMBEDDINGS], options.file_id)
        except ValueError as err:
            raise ServerRefused("E_SERVER_RESULT", f"{self.url}: {err}") from None
        return replace(result, num_samples=len(samples))  # the document has it to the millisecond only


async def _request(
    connection: Connection, samples: Samples, parameters: Parameters, timeout_s: float | None
) -> dict[str, Tensor]:
    name = PCM if samples.dtype == "int16" else AUDIO
    return await connection.infer(DIARIZE, {name: samples}, (RESULT, EMBEDDINGS), parameters, timeout_s)


def _samples(audio: str | os.PathLike[str] | npt.ArrayLike, channel: int | None) -> Samples:
    if isinstance(audio, (str, os.PathLike)):
        decoded = decode_file(audio, channel=channel)
        for note in decoded.notes:
            warnings.warn(AudioWarning(f"{os.fspath(audio)}: {note}"), stacklevel=3)
        return decoded.samples
    if channel is not None:
        raise InvalidOption("E_OPTION_CHANNEL", "channel: got one for an array, expected one for files only")
    return as_samples(audio)


def _name(audio: str | os.PathLike[str] | npt.ArrayLike) -> str:
    return recording_name(audio) if isinstance(audio, (str, os.PathLike)) else "recording"


def recording_name(path: str | os.PathLike[str]) -> str:
    """The file's name without extension; bytes that are no UTF-8 become ``?``.

    >>> recording_name("calls/monday.v2.wav")
    'monday.v2'
    """
    return Path(path).stem.encode(errors="replace").decode()
