"""``diarize_file``: one sound or video file as it is, so that ``curl --data-binary`` is a client.

Options come as request parameters, or as HTTP headers: ``diar-num-speakers: 2``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import triton_python_backend_utils as pb_utils

from diar.errors import InvalidAudio, InvalidOption
from diar.options import Options
from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.serving import diarize_model
from diar.serving.answers import request_parameters
from diar.serving.decoding import DecodingLimits, decode_apart
from diar.serving.settings import FileSettings, Instance
from diar.stopwatch import Stopwatch
from diar.tensors import EMBEDDINGS, FILE, RESULT, RTTM

HEADER_PREFIX = "diar-"


class TritonPythonModel(diarize_model.TritonPythonModel):
    """Triton's view of decoding and ``diar.pipeline.diarize``."""

    _settings_kind = FileSettings

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the settings; SetupError says what is wrong in them."""
        super().initialize(args)
        settings = Instance.from_arguments(args).settings(FileSettings)
        self._max_bytes = settings.max_file_bytes
        self._limits = DecodingLimits(
            settings.max_decode_s, settings.max_decode_bytes, settings.max_recording_s * SAMPLE_RATE
        )

    async def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        with self._reception.job(request) as job:
            try:
                self._reception.admit(job)
                options = Options.from_parameters(option_parameters(request_parameters(request)))
                content = self._content(request)
                stopwatch = Stopwatch()
                with stopwatch("decoding"):
                    samples, notes = await job.wait_for(
                        asyncio.to_thread(decode_apart, content, self._limits)
                    )
                result = await self._diarize_samples(job, samples, options, stopwatch)
                return file_response(result, notes)
            except Exception as err:
                return job.failed(err)

    def _content(self, request: pb_utils.InferenceRequest) -> bytes:
        files = pb_utils.get_input_tensor_by_name(request, FILE).as_numpy().reshape(-1)
        if len(files) != 1:
            raise InvalidAudio("E_AUDIO_INPUTS", f"{FILE}: got {len(files)} files, expected one")
        content = bytes(files[0])
        if len(content) > self._max_bytes:
            raise InvalidAudio(
                "E_AUDIO_TOO_LARGE",
                f"got a file of {len(content)} bytes, expected at most {self._max_bytes}",
            )
        return content


def option_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Request parameters under the names, and of the types, that ``Options.from_parameters`` takes.

    >>> option_parameters({"Diar-Num-Speakers": "2", "diar-timings": "true", "file_id": "7"})
    {'num_speakers': 2, 'timings': True, 'file_id': '7'}

    Raises InvalidOption for a header that is given twice, or beside the parameter of that name.
    """
    options: dict[str, object] = {}
    for name, value in parameters.items():
        option = name.lower()
        if option.startswith(HEADER_PREFIX) and isinstance(value, str):
            option = option[len(HEADER_PREFIX) :].replace("-", "_")
            value = value.strip() if option == "file_id" else _read(value.strip())
        if option in options:
            raise InvalidOption("E_OPTION_CONFLICT", f"{option}: got it twice, expected it once")
        options[option] = value
    return options


def _read(text: str) -> object:
    """The value that a header's text stands for: an integer, true or false, else the text itself."""
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        return int(text) if text.lstrip("+-").isdecimal() else text


def file_response(result: Diarization, notes: list[str]) -> pb_utils.InferenceResponse:
    """RESULT (with ``notes`` on how the file was read, if there are any), EMBEDDINGS, and RTTM at the end.

    RTTM begins with a new line: Triton puts four bytes before each text.
    """
    document: dict[str, Any] = result.document()
    if notes:
        document["notes"] = notes
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor(RESULT, np.array([msgspec.json.encode(document)], dtype=np.object_)),
            pb_utils.Tensor(EMBEDDINGS, result.embeddings),
            pb_utils.Tensor(RTTM, np.array([b"\n" + result.to_rttm().encode()], dtype=np.object_)),
        ]
    )
