"""The end in order: nothing new is taken, what runs is finished, nothing is left behind."""

import signal
from time import monotonic, sleep

import pytest
from health import meeting, readiness, seconds_until
from running import Running
from scripted_repository import scripted_repository


@pytest.fixture
def served(serve, tmp_path):
    """One diar_nn that takes 0.3 s for a block."""
    return serve("--model-repository", scripted_repository(tmp_path, block_s=0.3), "--exit-timeout", 20)


@pytest.fixture
def wire(served, connect):
    return connect("grpc", served)


def test_running_recordings_finish_and_new_ones_are_refused(served, wire):
    samples = meeting(10)
    expected = wire.diarize(samples)
    running = Running(wire, samples)
    sleep(1.0)
    served.process.send_signal(signal.SIGTERM)
    seconds_until(lambda: readiness(served) == (503, ["draining"]), 3)
    refused = Running(wire, meeting(0.5)).wait()
    assert refused.message().startswith("E_OVERLOADED_DRAINING|")
    assert "UNAVAILABLE" in refused.status()
    assert running.wait() == expected
    assert served.process.wait(20) == 0
    assert served.regions() == []


def test_second_signal_ends_it_at_once(served, wire):
    running = Running(wire, meeting(30))
    sleep(1.0)
    served.process.send_signal(signal.SIGTERM)
    sleep(0.5)
    assert served.process.poll() is None
    start = monotonic()
    assert served.stop(signal.SIGTERM) == 0
    assert monotonic() - start < 8
    assert served.regions() == []
    running.wait()


def test_idle_server_ends_soon(served):
    start = monotonic()
    assert served.stop(signal.SIGTERM) == 0
    assert monotonic() - start < 8
