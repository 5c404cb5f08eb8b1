"""A caller of diarize_events sees how far its recording is, and always an end."""

import json
import queue

import msgspec
import numpy as np
import pytest
import tritonclient.grpc as triton
from health import figures, seconds_until
from live import REQUEST_LIMIT_S

BLOCK = 512_000  # samples from one block to the next


@pytest.fixture
def listen(server):
    """Send a recording to diarize_events: yields (event, or None at FINAL; error)."""
    client = triton.InferenceServerClient(f"127.0.0.1:{server.ports[1]}")
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))

    def listen_to(samples, parameters=None):
        pcm = triton.InferInput("PCM", [len(samples)], "INT16")
        pcm.set_data_from_numpy(samples)
        client.async_stream_infer(
            "diarize_events", [pcm], enable_empty_final_response=True, parameters=parameters
        )
        while True:
            result, error = answers.get(timeout=REQUEST_LIMIT_S)
            if error is None:
                texts = result.as_numpy("EVENT")
                yield (None if texts is None else json.loads(texts[0])), None
                if result.get_response().parameters["triton_final_response"].bool_param:
                    return
            else:
                yield None, error.message()

    listen_to.client = client
    yield listen_to
    client.stop_stream(cancel_requests=True)
    client.close()


def test_progress_then_the_result_of_diarize_then_the_end(listen, grpc, speech):
    samples = np.tile(speech, 2)
    events = list(listen(samples, {"file_id": "a b"}))
    assert events[-1] == (None, None)
    *progress, result = [event for event, _ in events[:-1]]
    assert [(event["stage"], event["done"], event["total"]) for event in progress] == [
        ("blocks", 0, 2),
        ("blocks", 1, 2),
        ("blocks", 2, 2),
        ("clustering", 2, 2),
        ("stitching", 2, 2),
    ]
    whole = grpc.infer({"PCM": samples})
    document = {key: result[key] for key in json.loads(whole["RESULT"][0])}
    assert msgspec.json.encode(document) == whole["RESULT"][0]
    assert np.array_equal(np.float32(result["embeddings"]), whole["EMBEDDINGS"])
    assert result["rttm"].replace("a_b", "recording") == whole["RTTM"][0].decode()


@pytest.mark.parametrize(
    ("samples", "parameters", "message"),
    [
        pytest.param(np.zeros(0, np.int16), None, "E_AUDIO_EMPTY|", id="no-samples"),
        pytest.param(np.zeros(9, np.int16), {"colour": "red"}, "E_OPTION_UNKNOWN|got colour", id="option"),
    ],
)
def test_error_comes_before_the_end(listen, samples, parameters, message):
    (_, error), end = listen(samples, parameters)
    assert error.startswith(message)
    assert end == (None, None)


def test_cancelling_ends_the_recording(listen, server):
    cancelled = 'diar_recordings_total{model="diarize_events",outcome="E_CANCELLED"}'
    before = figures(server.ports[2]).get(cancelled, 0)
    events = listen(np.zeros(12 * BLOCK, np.int16))
    assert next(events)[0]["done"] == 0
    listen.client.stop_stream(cancel_requests=True)
    seconds_until(lambda: figures(server.ports[2]).get(cancelled, 0) == before + 1, 60)
