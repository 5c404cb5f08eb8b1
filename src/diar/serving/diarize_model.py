"""``diarize``: a whole recording in, speaker turns out; the networks are called block by block (BLS)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import triton_python_backend_utils as pb_utils

from diar.errors import InvalidAudio
from diar.options import Options
from diar.pipeline import Progress, diarize
from diar.profile import SAMPLE_RATE, load_profile
from diar.result import Diarization
from diar.serving.answers import check_wanted, failed, start_logging
from diar.serving.nets import block_slots
from diar.serving.settings import Instance, RecordingSettings
from diar.spans import Samples
from diar.stopwatch import Stopwatch
from diar.tensors import AUDIO, EMBEDDINGS, PCM, RESULT, RTTM


class TritonPythonModel:
    """Triton's view of ``diar.pipeline.diarize``."""

    _settings_kind: type[RecordingSettings] = RecordingSettings

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the settings; SetupError says what is wrong in them."""
        start_logging(args["model_name"])
        self._settings = Instance.from_arguments(args).settings(self._settings_kind)
        self._profile = load_profile(self._settings.profile)

    async def execute(
        self, requests: Sequence[pb_utils.InferenceRequest]
    ) -> list[pb_utils.InferenceResponse]:
        """One answer per request, in order; a bad request never costs its neighbour."""
        return [await self._respond(request) for request in requests]

    async def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        try:
            check_wanted(request)
            return recording_response(await self._diarize(request))
        except Exception as err:
            return failed(err)

    async def _diarize(self, request: pb_utils.InferenceRequest) -> Diarization:
        options = Options.from_parameters(json.loads(request.parameters()))
        samples = recording_samples(request, self._settings.max_recording_s)
        return await self._diarize_samples(request, samples, options, Stopwatch())

    async def _diarize_samples(
        self,
        request: pb_utils.InferenceRequest,
        samples: Samples,
        options: Options,
        stopwatch: Stopwatch,
        progress: Progress = lambda done, total: None,
    ) -> Diarization:
        """Diarize samples for the caller of ``request``."""
        slots = block_slots(
            self._settings.nn_model_names, self._settings.blocks_in_flight, lambda: check_wanted(request)
        )
        with stopwatch("total"):
            result = await diarize(samples, self._profile, slots, options, progress, stopwatch)
        return replace(result, timings=stopwatch.seconds) if options.timings else result


def recording_samples(request: pb_utils.InferenceRequest, max_recording_s: int) -> Samples:
    """The recording that came with a request.

    Raises InvalidAudio unless there is exactly one of AUDIO and PCM, and it is not too long.
    """
    tensors = [pb_utils.get_input_tensor_by_name(request, name) for name in (AUDIO, PCM)]
    given = [tensor for tensor in tensors if tensor is not None]
    if len(given) != 1:
        what = " and ".join(tensor.name() for tensor in given) or "neither"
        raise InvalidAudio("E_AUDIO_INPUTS", f"got {what}, expected exactly one of {AUDIO} and {PCM}")
    samples: Samples = given[0].as_numpy()
    if samples.size > max_recording_s * SAMPLE_RATE:
        raise InvalidAudio(
            "E_AUDIO_TOO_LONG",
            f"got {samples.size / SAMPLE_RATE:.3f} s of audio, expected at most {max_recording_s} s",
        )
    return samples


def recording_response(result: Diarization) -> pb_utils.InferenceResponse:
    """RESULT, RTTM and EMBEDDINGS of one recording."""
    texts = {RESULT: result.to_json(), RTTM: result.to_rttm().encode()}
    return pb_utils.InferenceResponse(
        [
            *(pb_utils.Tensor(name, np.array([text], dtype=np.object_)) for name, text in texts.items()),
            pb_utils.Tensor(EMBEDDINGS, result.embeddings),
        ]
    )
