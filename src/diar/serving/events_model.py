"""``diarize_events``: ``diarize`` for callers who want to see how far it is (decoupled, gRPC streaming).

One ``EVENT`` after the other, each a JSON document with the key ``event``: ``progress`` while it works, at
last ``result``, which holds the RESULT document's keys, ``rttm`` and ``embeddings``. Then the response that
says that it was the last one, also after an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import triton_python_backend_utils as pb_utils

from diar.options import Options
from diar.result import Diarization
from diar.serving import diarize_model
from diar.serving.answers import request_parameters
from diar.serving.diarize_model import recording_samples
from diar.serving.jobs import Job
from diar.stopwatch import Stopwatch
from diar.tensors import EVENT


class TritonPythonModel(diarize_model.TritonPythonModel):
    """Triton's view of ``diar.pipeline.diarize`` and of its progress."""

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> None:  # type: ignore[override]
        """Serve requests one after the other; the queue in front of the instance is Triton's."""
        for request in requests:
            asyncio.run(self._serve(request))

    async def _serve(self, request: pb_utils.InferenceRequest) -> None:
        sender = request.get_response_sender()
        with self._reception.job(request) as job:
            try:
                self._reception.admit(job)
                result = await self._diarize_telling(job, sender)
                sender.send(event_response("result", **result_keys(result)))
            except Exception as err:
                sender.send(job.failed(err))
            finally:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _diarize_telling(self, job: Job, sender: Any) -> Diarization:
        options = Options.from_parameters(request_parameters(job.request))
        samples = recording_samples(job.request, self._settings.max_recording_s)
        windows = self._profile.geometry.num_windows(samples.size)
        total = -(-windows // self._profile.geometry.windows_per_block)

        def tell(stage: str, done: int) -> None:
            sender.send(event_response("progress", stage=stage, done=done, total=total))

        def begin(stage: str) -> None:
            if stage != "total":
                tell(stage, 0 if stage == "blocks" else total)

        stopwatch = Stopwatch(begin)
        return await self._diarize_samples(
            job, samples, options, stopwatch, lambda done, total: tell("blocks", done)
        )


def result_keys(result: Diarization) -> dict[str, Any]:
    """The RESULT document, and what comes as further outputs of ``diarize``."""
    return {
        **result.document(),
        "rttm": result.to_rttm(),
        "embeddings": result.embeddings.astype(np.float64).tolist(),
    }


def event_response(event: str, **keys: Any) -> pb_utils.InferenceResponse:
    """One EVENT."""
    text = msgspec.json.encode({"event": event, **keys})
    return pb_utils.InferenceResponse([pb_utils.Tensor(EVENT, np.array([text], dtype=np.object_))])
