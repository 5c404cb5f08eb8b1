"""More work than there is room for, deadlines that pass, clients that go away."""

import json
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http
from health import OUT_OF_MEMORY, figures, heal_count, is_ready, meeting, seconds_until
from live import Wire, start_and_wait
from running import Running
from scripted_repository import edit, scripted_repository
from tritonclient.utils import InferenceServerException

JOBS, QUEUE = 2, 4
MODULES = {"grpc": triton, "http": tritonclient.http}


@pytest.fixture(scope="module")
def small(weights, tmp_path_factory):
    """A server that takes two recordings at once, and of those that wait no more than four."""
    folder = tmp_path_factory.mktemp("small")
    repository = scripted_repository(folder, block_s=0.05)
    edit(repository / "diarize", ("max_queue_size: 16", f"max_queue_size: {QUEUE}"))
    served = start_and_wait(["--model-repository", repository, "--probe-interval", 600], folder / "log")
    yield served
    assert served.stop() == 0, served.log.read_text()[-4000:]
    assert served.regions() == []
    served.process.stdout.close()


@pytest.fixture(params=["grpc", "http"])
def wire(request, small, connect):
    return connect(request.param, small)


@pytest.fixture
def grpc(small, connect):
    return connect("grpc", small)


def test_fifty_clients_are_answered_or_told_to_come_back(small, grpc):
    samples = meeting(2)
    expected = grpc.diarize(samples)
    seconds = []

    def ask(_):
        wire, start = Wire("grpc", small), monotonic()
        try:
            return wire.diarize(samples)
        except InferenceServerException as err:
            return err
        finally:
            seconds.append(monotonic() - start)
            wire.client.close()

    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(ask, range(50)))
    refused = [result for result in results if isinstance(result, InferenceServerException)]
    assert all("UNAVAILABLE" in error.status() for error in refused)
    assert all("Exceeds maximum queue size" in error.message() for error in refused)
    answered = [result for result in results if not isinstance(result, InferenceServerException)]
    assert len(answered) >= JOBS + QUEUE
    assert set(answered) == {expected}
    assert max(seconds) < 60
    assert is_ready(small)


def pcm_input(samples, module=triton):
    tensor = module.InferInput("PCM", [len(samples)], "INT16")
    tensor.set_data_from_numpy(samples)
    return [tensor]


def blocks_run(served):
    return sum(
        value
        for name, value in figures(served.ports[2]).items()
        if name.startswith("diar_blocks_total") and 'outcome="ok"' in name
    )


def test_recording_ends_at_the_requests_own_limit(small, wire):
    """Also over HTTP, where a client that goes away is never noticed."""
    with pytest.raises(InferenceServerException) as caught:
        wire.client.infer("diarize", pcm_input(meeting(60), MODULES[wire.protocol]), timeout=300_000)
    assert caught.value.message().startswith("E_CANCELLED_DEADLINE|not done within 0.3 s")
    sleep(0.5)  # a block that is under way ends, and is counted
    run = blocks_run(small)
    sleep(1.0)
    assert blocks_run(small) == run
    assert wire.diarize(meeting(0.5))


def test_deadline_of_a_grpc_client_stops_its_recording(small, grpc):
    with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
        grpc.client.infer("diarize", pcm_input(meeting(60)), client_timeout=0.5)
    sleep(0.5)
    run = blocks_run(small)
    sleep(1.5)
    assert blocks_run(small) <= run + 2


def test_storm_of_deadlines_and_cancellations_leaves_it_right(small, grpc):
    samples = meeting(1)
    expected = grpc.diarize(samples)
    rng = np.random.default_rng(4)
    answers = []

    def ask(deadline_ms):
        call = grpc.client.async_infer(
            "diarize",
            pcm_input(samples),
            lambda result, error: answers.append(error),
            client_timeout=None if deadline_ms is None else deadline_ms / 1000,
        )
        if deadline_ms is None:
            sleep(float(rng.uniform(0, 0.01)))
            call.cancel()

    for kind in rng.choice(4, 300):
        ask([1, 5, 50, None][kind])
    seconds_until(lambda: len(answers) == 300, 60)
    seconds_until(lambda: _answers(grpc, samples, expected), 30)
    assert is_ready(small)
    assert heal_count(small, "diar_nn_g0") == 0


def test_recordings_given_up_leave_no_shared_memory_behind(small, grpc):
    def give_up(times):
        for _ in range(times):
            with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
                grpc.client.infer("diarize", pcm_input(meeting(10)), client_timeout=0.2)
            sleep(0.3)  # the blocks in flight end
        return sum(region.stat().st_size for region in small.regions())

    before = give_up(5)
    assert give_up(20) == before


def _answers(wire, samples, expected):
    """Whether a request is answered, and right; the queue may be full for a while."""
    result = Running(wire, samples).wait()
    assert result == expected or "UNAVAILABLE" in result.status()
    return result == expected


def test_gpu_out_of_memory_twice_has_its_process_loaded_again(small, grpc):
    """As good as it gets without a GPU: the networks are scripted to fail."""
    heals, samples = heal_count(small, "diar_nn_g0"), meeting(0.5)
    samples[0] = OUT_OF_MEMORY
    result = Running(grpc, samples).wait()
    assert isinstance(result, InferenceServerException)
    seconds_until(lambda: is_ready(small), 20)
    assert grpc.diarize(meeting(0.5))
    assert heal_count(small, "diar_nn_g0") >= heals


@pytest.fixture
def cramped(serve, tmp_path):
    """A server with a limit of ten seconds on recordings and one block without an answer."""
    repository = scripted_repository(tmp_path, max_recording_s=10, max_request_s=2, block_s=0.3)
    return serve("--model-repository", repository)


def test_limits_of_the_server_are_named(cramped, connect):
    wire = connect("grpc", cramped)
    with pytest.raises(InferenceServerException, match=r"E_AUDIO_TOO_LONG\|got 10.062 s .* at most 10 s"):
        wire.diarize(np.zeros(161_000, np.int16))
    assert json.loads(wire.diarize(np.zeros(160_000, np.int16)))["turns"] == []
