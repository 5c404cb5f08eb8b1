"""Requests to ``diarize_stream`` through the fake, and their answers."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils

from diar.pipeline import diarize
from diar.serving.nets import run_block
from diar.tensors import RECORDING_OUTPUTS

SECOND, WAIT_S = 16_000, 20
SPEECH = 3277  # 0.1 of full scale: the first local speaker


def chunk(stream, start=False, end=False, token="me", wishes=None, **tensors):
    parameters = {"stream_token": token, **(wishes or {})}
    request = pb_utils.InferenceRequest(
        model_name="diarize_stream",
        requested_output_names=RECORDING_OUTPUTS,
        inputs=[pb_utils.Tensor(name, array) for name, array in tensors.items()],
        parameters={key: value for key, value in parameters.items() if value is not None},
    )
    return request._sequence(stream, start, end)


def answers(model, *requests):
    """The only response of each request; all of them are given at once."""
    assert model.execute(requests) is None
    for request in requests:
        assert request._sender._done.wait(WAIT_S), "no answer"
        assert len(request._sender._sent) == 1
    return [request._sender._sent[0] for request in requests]


def answer(model, *arguments, **more):
    return answers(model, chunk(*arguments, **more))[0]


def output(response, name):
    assert not response.has_error(), response.error().message()
    return pb_utils.get_output_tensor_by_name(response, name).as_numpy()


def result(response):
    return output(response, "RESULT")[0]


def error(response):
    return response.error().code(), response.error().message()


def pcm(seconds, value=SPEECH):
    return np.full(round(seconds * SECOND), value, np.int16)


def meeting(seconds, seed=1):
    classes = np.random.default_rng(seed).integers(0, 4, seconds)
    return np.repeat(classes * SPEECH, SECOND).astype(np.int16)


def whole(samples, profile):
    return asyncio.run(diarize(samples, profile, [lambda span: run_block("diar_nn_g0", span)])).to_json()


def stream_all(model, stream, samples, pieces, **more):
    """Feed and end a stream; RESULT of the end."""
    for index, piece in enumerate(np.array_split(samples, pieces)):
        result(answer(model, stream, start=index == 0, PCM=piece, **more))
    return result(answer(model, stream, end=True, **more))
