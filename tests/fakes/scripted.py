"""Scripted stand-ins for the networks: what a block answers is written in the audio itself.

The sign and size of a window's first sample names the powerset class of all its frames, in steps of 0.1:
0.0 silence, 0.1 the first local speaker, 0.2 the second, and so on.
"""

from __future__ import annotations

import json

import numpy as np
import triton_python_backend_utils as pb_utils

from diar.pipeline import BlockResult
from diar.serving.nn_model import block_outputs


class ScriptedRunner:
    """Answers each window with one powerset class; ``lanes`` are ("scripted", "scripted")."""

    def __init__(self, profile):
        self._profile = profile
        self.calls = []  # (samples, embeddings, spans) of each call
        self.closed = False

    def run(self, span, embeddings=True, spans=True):
        self.calls.append((len(span), embeddings, spans))
        geometry = self._profile.geometry
        windows = 1 + (len(span) - geometry.window) // geometry.hop
        classes = np.rint(span[:: geometry.hop][:windows] * 10).astype(int)
        logits = np.full((windows, geometry.frames, geometry.num_classes), -20.0, np.float32)
        logits[np.arange(windows), :, classes] = 0.0
        shape = (windows, geometry.local_speakers)
        vectors = np.zeros((*shape, self._profile.embedding.dim), np.float32)
        vectors[:, np.arange(shape[1]), np.arange(shape[1])] = 1.0
        speech = np.full(shape, 9.0, np.float32)
        pure = np.zeros_like(vectors)
        if step := self._profile.pure_step(windows):
            pure[::step] = vectors[::step]
            vectors = vectors if spans else np.zeros_like(vectors)
        return BlockResult(logits, vectors, speech, pure, ("scripted", "scripted"))

    def close(self):
        self.closed = True


def scripted_nets(profile, before=lambda: None):
    """A ``diar_nn`` for the fake's ``_callees``. before: run at each block; what it raises is the error."""
    runner = ScriptedRunner(profile)

    async def answer(request):
        try:
            before()
        except Exception as err:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(err)))
        span = pb_utils.get_input_tensor_by_name(request, "SPAN").as_numpy()
        wanted = request.requested_output_names()
        outputs = block_outputs(runner.run(span, spans="EMBEDDINGS" in wanted), profile)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, outputs[name]) for name in wanted])

    answer.runner = runner
    return answer


def initialize_arguments(model, repository, parameters, kind="CPU"):
    """What Triton hands to ``initialize``."""
    config = {"parameters": {key: {"string_value": value} for key, value in parameters.items()}}
    return {
        "model_name": model,
        "model_instance_name": f"{model}_0_0",
        "model_config": json.dumps(config),
        "model_repository": str(repository / model),
        "model_instance_kind": kind,
        "model_instance_device_id": "0",
    }
