"""``diarize``: a whole recording in, speaker turns out; the networks are called block by block (BLS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import triton_python_backend_utils as pb_utils

from diar.board import Board, Work
from diar.errors import InvalidAudio
from diar.options import Options
from diar.pipeline import Progress, diarize
from diar.profile import SAMPLE_RATE, load_profile
from diar.result import Diarization
from diar.serving.answers import request_parameters, start_logging
from diar.serving.breaker import Breaker
from diar.serving.jobs import Job, Reception
from diar.serving.lifeline import end_with_server
from diar.serving.metrics import Metrics
from diar.serving.nets import Nets
from diar.serving.settings import Instance, RecordingSettings
from diar.spans import Samples
from diar.stopwatch import Stopwatch
from diar.tensors import AUDIO, EMBEDDINGS, PCM, RESULT, RTTM


class TritonPythonModel:
    """Triton's view of ``diar.pipeline.diarize``."""

    _settings_kind: type[RecordingSettings] = RecordingSettings

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the settings; SetupError says what is wrong in them."""
        model = args["model_name"]
        start_logging(model)
        instance, board, metrics = Instance.from_arguments(args), Board.find(), Metrics()
        self._settings = instance.settings(self._settings_kind)
        self._profile = load_profile(self._settings.profile)
        self._nets = Nets(
            self._settings.nn_model_names,
            self._settings.blocks_in_flight,
            instance.name,
            Breaker(board),
            metrics,
        )
        work = board.work(model) if board else Work(None)
        self._reception = Reception(
            model, self._settings.max_request_s, self._settings.max_block_s, board, metrics, work
        )
        end_with_server()

    async def execute(
        self, requests: Sequence[pb_utils.InferenceRequest]
    ) -> list[pb_utils.InferenceResponse]:
        """One answer per request, in order; a bad request never costs its neighbour."""
        return [await self._respond(request) for request in requests]

    async def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        with self._reception.job(request) as job:
            try:
                self._reception.admit(job)
                return recording_response(await self._diarize(job))
            except Exception as err:
                return job.failed(err)

    async def _diarize(self, job: Job) -> Diarization:
        options = Options.from_parameters(request_parameters(job.request))
        samples = recording_samples(job.request, self._settings.max_recording_s)
        return await self._diarize_samples(job, samples, options, Stopwatch())

    async def _diarize_samples(
        self,
        job: Job,
        samples: Samples,
        options: Options,
        stopwatch: Stopwatch,
        progress: Progress = lambda done, total: None,
    ) -> Diarization:
        """Diarize samples for the caller of a job."""
        slots = self._nets.slots(job.call_limits)
        job.seconds = stopwatch.seconds
        with stopwatch("total"):
            result = await diarize(samples, self._profile, slots, options, progress, stopwatch)
        job.result = result
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
