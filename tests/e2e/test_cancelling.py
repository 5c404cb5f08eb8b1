"""A gRPC caller that goes away stops its recording within the blocks in flight."""

from time import sleep

import numpy as np
import tritonclient.grpc as triton

MINUTE = 60 * 16_000


def blocks_run(grpc):
    """Blocks that the networks have answered since the server started."""
    statistics = grpc.client.get_inference_statistics("diar_nn_g0", as_json=True)
    return int(statistics["model_stats"][0].get("inference_count", 0))


def settled(grpc):
    """The number of blocks run, once it has stopped changing."""
    before = -1
    while before != (now := blocks_run(grpc)):
        before = now
        sleep(2.0)
    return now


def test_cancelled_recording_runs_no_more_than_the_blocks_in_flight(serve, connect):
    grpc = connect("grpc", serve("--probe-interval", 600))  # probes are blocks too
    twenty_blocks = triton.InferInput("PCM", [10 * MINUTE], "INT16")
    twenty_blocks.set_data_from_numpy(np.zeros(10 * MINUTE, np.int16))
    start, answers = settled(grpc), []
    call = grpc.client.async_infer("diarize", [twenty_blocks], lambda result, error: answers.append(error))
    while blocks_run(grpc) == start:
        sleep(0.05)
    call.cancel()
    at_cancel = blocks_run(grpc)
    assert settled(grpc) <= at_cancel + 3
    assert "cancelled" in str(answers[0]).lower()
