import asyncio
import json

import msgspec
import numpy as np
import pytest
import triton_python_backend_utils as pb_utils
from scripted import initialize_arguments, scripted_nets

from diar.errors import InternalError
from diar.pipeline import diarize
from diar.serving.events_model import TritonPythonModel
from diar.serving.nets import run_block

MINUTE = np.full(60 * 16_000, 3277, np.int16)


@pytest.fixture
def model(repository, parameters, profile, triton):
    triton._callees["diar_nn_g0"] = scripted_nets(profile)
    model = TritonPythonModel()
    model.initialize(initialize_arguments("diarize_events", repository, parameters["diarize_events"]))
    return model


def recording(parameters=None, **tensors):
    return pb_utils.InferenceRequest(
        model_name="diarize_events",
        requested_output_names=["EVENT"],
        inputs=[pb_utils.Tensor(name, array) for name, array in tensors.items()],
        parameters=parameters,
    )


def execute(model, request):
    """Events of a request, and its error (None if there is none); FINAL always comes."""
    assert model.execute([request]) is None
    assert request._sender._done.is_set()
    *responses, last = request._sender._sent
    failure = last.error() if last.has_error() else None
    events = responses if failure else [*responses, last]
    return [json.loads(response.output_tensors()[0].as_numpy()[0]) for response in events], failure


def test_progress_comes_before_the_result(model):
    events, failure = execute(model, recording(PCM=MINUTE, parameters={"file_id": "a b"}))
    assert failure is None
    assert events[:-1] == [
        {"event": "progress", "stage": stage, "done": done, "total": 2}
        for stage, done in [("blocks", 0), ("blocks", 1), ("blocks", 2), ("clustering", 2), ("stitching", 2)]
    ]
    assert events[-1]["event"] == "result"
    assert events[-1]["rttm"].startswith("SPEAKER a_b 1 0.000 60.000 ")
    assert np.float32(events[-1]["embeddings"]).shape == (1, 192)


def test_result_holds_the_document_of_diarize_to_the_byte(model, profile):
    events, _ = execute(model, recording(PCM=MINUTE))
    direct = asyncio.run(diarize(MINUTE, profile, [lambda span: run_block("diar_nn_g0", span)]))
    document = {key: events[-1][key] for key in direct.document()}
    assert list(events[-1]) == ["event", *document, "rttm", "embeddings"]
    assert msgspec.json.encode(document) == direct.to_json()
    assert np.array_equal(np.float32(events[-1]["embeddings"]), direct.embeddings)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param(recording(), "E_AUDIO_INPUTS|got neither", id="no-audio"),
        pytest.param(recording(PCM=MINUTE[:0]), "E_AUDIO_EMPTY|", id="no-samples"),
        pytest.param(recording({"colour": "red"}, PCM=MINUTE), "E_OPTION_UNKNOWN|got colour", id="option"),
    ],
)
def test_bad_request_is_answered_by_name_and_finally(model, request_, message):
    _, failure = execute(model, request_)
    assert (failure.code(), failure.message()[: len(message)]) == (pb_utils.TritonError.INVALID_ARG, message)


def test_failure_inside_is_answered_after_the_progress_so_far(model, profile, triton):
    def fail():
        raise InternalError("E_INTERNAL", "internal error; see the server log")

    triton._callees["diar_nn_g0"] = scripted_nets(profile, fail)
    events, failure = execute(model, recording(PCM=MINUTE))
    assert events == [{"event": "progress", "stage": "blocks", "done": 0, "total": 2}]
    assert failure.message() == "E_INTERNAL|internal error; see the server log"


def test_cancelling_stops_the_recording_within_the_blocks_in_flight(model, profile, triton):
    request = recording(PCM=np.tile(MINUTE, 20))
    nets = scripted_nets(profile, request._cancel)
    triton._callees["diar_nn_g0"] = nets
    _, failure = execute(model, request)
    assert failure.code() == pb_utils.TritonError.CANCELLED
    assert len(nets.runner.calls) <= 2
