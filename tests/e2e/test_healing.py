"""Whatever is killed, stopped or hangs comes back by itself, and no result is lost or wrong."""

import signal
from time import sleep

import numpy as np
import psutil
import pytest
from health import (
    HANGS,
    HANGS_ONCE,
    MINUTE,
    figures,
    heal_count,
    healed,
    is_ready,
    meeting,
    readiness,
    seconds_until,
    stubs,
    tritonserver,
)
from live import start_and_wait
from running import Running
from scripted_repository import scripted_repository

FRONT = ("diarize", "diarize_events", "diarize_file", "diarize_stream")
LOST = 'diar_blocks_lost_total{model="diar_nn_g0"}'


@pytest.fixture(scope="module")
def two(weights, tmp_path_factory):
    """A server with two diar_nn, each taking 0.2 s for a block."""
    folder = tmp_path_factory.mktemp("two")
    repository = scripted_repository(folder, replicas=2, block_s=0.2, only=FRONT)
    served = start_and_wait(["--model-repository", repository, "--hang-timeout", 3], folder / "log")
    yield served
    assert served.stop() == 0, served.log.read_text()[-4000:]
    assert served.regions() == []
    served.process.stdout.close()


@pytest.fixture
def well(two):
    """The server, ready before the test and after it."""
    seconds_until(lambda: is_ready(two), 30)
    yield two
    seconds_until(lambda: is_ready(two), 30)


@pytest.fixture
def wire(two, connect):
    return connect("grpc", two)


def test_killed_networks_in_the_middle_of_a_recording_cost_two_blocks(well, wire):
    samples = meeting(10)
    undisturbed = wire.diarize(samples)
    lost, heals = figures(well.ports[2]).get(LOST, 0), heal_count(well, "diar_nn_g0")
    running = Running(wire, samples)
    sleep(1.0)
    stubs(well, "diar_nn_g0")[0].kill()
    assert running.wait() == undisturbed
    assert 0 <= figures(well.ports[2]).get(LOST, 0) - lost <= 2
    seconds_until(lambda: healed(well, "diar_nn_g0", heals), 15)


@pytest.mark.parametrize("resumes", [False, True], ids=["stays-stopped", "resumes-at-once"])
def test_stopped_networks_in_the_middle_of_a_recording_change_nothing(well, wire, resumes):
    samples = meeting(5)
    undisturbed = wire.diarize(samples)
    running = Running(wire, samples)
    sleep(0.5)
    stub = stubs(well, "diar_nn_g0")[0]
    stub.suspend()
    if resumes:
        sleep(0.2)
        if stub.is_running():
            stub.resume()
    assert running.wait() == undisturbed
    seconds_until(lambda: is_ready(well), 15)


def test_networks_that_hang_are_killed_and_the_block_runs_elsewhere(well, wire):
    samples = meeting(3)
    samples[0] = HANGS_ONCE
    undisturbed = wire.diarize(samples)
    heals = heal_count(well, "diar_nn_g0") + heal_count(well, "diar_nn_g1")
    (well.log.parent / "model_repository" / "hangs").touch()
    running = Running(wire, samples)

    def is_healed():
        return heal_count(well, "diar_nn_g0") + heal_count(well, "diar_nn_g1") > heals and is_ready(well)

    seconds_until(is_healed, 15)
    assert running.wait() == undisturbed


def test_block_that_takes_down_whatever_runs_it_is_given_up(well, wire):
    samples = meeting(0.5)
    samples[0] = HANGS
    assert "E_INTERNAL|" in Running(wire, samples).wait(120).message()
    seconds_until(lambda: is_ready(well), 30)
    assert b"SPEAKER" in wire.diarize(meeting(0.5))


@pytest.mark.parametrize("model", ["diar_nn_g1", *FRONT])
def test_stub_killed_while_idle_is_healed(well, wire, model):
    expected, heals = wire.diarize(meeting(0.5)), heal_count(well, model)
    victim = stubs(well, model)[0]
    victim.kill()
    seconds_until(lambda: healed(well, model, heals), 10)
    assert victim.pid not in [stub.pid for stub in stubs(well, model)]
    assert wire.diarize(meeting(0.5)) == expected


@pytest.mark.parametrize("harm", [psutil.Process.kill, psutil.Process.suspend], ids=["killed", "stopped"])
def test_stub_harmed_while_it_loads_is_healed(well, wire, harm):
    expected, heals = wire.diarize(meeting(0.5)), heal_count(well, "diar_nn_g1")
    victim = stubs(well, "diar_nn_g1")[0]
    victim.kill()

    def reloading():
        return [stub for stub in stubs(well, "diar_nn_g1") if stub.pid != victim.pid]

    seconds_until(reloading, 10)
    harm(reloading()[0])
    seconds_until(lambda: healed(well, "diar_nn_g1", heals), 20)
    assert wire.diarize(meeting(0.5)) == expected


def test_killed_front_stub_is_answered_as_not_healthy_and_the_retry_is_right(well, wire):
    samples = meeting(4)
    expected, heals = wire.diarize(samples), heal_count(well, "diarize")
    running = [Running(wire, samples) for _ in range(2)]
    sleep(0.5)
    stubs(well, "diarize")[0].kill()
    results = [each.wait() for each in running]
    assert [result for result in results if result == expected]  # the other instance went on
    (error,) = [result for result in results if result != expected]
    assert "is not healthy" in error.message()
    seconds_until(lambda: healed(well, "diarize", heals), 15)
    assert wire.diarize(samples) == expected


def test_server_killed_is_back(well, wire):
    expected = wire.diarize(meeting(0.5))
    tritonserver(well).kill()
    seconds_until(lambda: not is_ready(well), 5)
    seconds_until(lambda: is_ready(well), 30)
    assert wire.diarize(meeting(0.5)) == expected


def test_server_stopped_is_started_again(well, wire):
    tritonserver(well).suspend()
    seconds_until(lambda: not is_ready(well), 5)
    seconds_until(lambda: is_ready(well), 30)
    assert b"SPEAKER" in wire.diarize(meeting(0.5))


def test_model_that_does_not_load_is_said_and_the_rest_serves_on(well, wire):
    expected = wire.diarize(meeting(1))
    flag = well.log.parent / "model_repository" / "broken"
    flag.touch()
    stubs(well, "diar_nn_g0")[0].kill()
    seconds_until(lambda: "broken" in str(readiness(well)[1]), 30)
    status, why = readiness(well)
    assert status == 503
    assert "diar_nn_g0: broken: " in why[0]
    assert "no weights here" in why[0]
    assert wire.diarize(meeting(1)) == expected  # by the other one
    flag.unlink()
    seconds_until(lambda: is_ready(well), 40)


@pytest.fixture
def one(serve, tmp_path):
    return serve("--model-repository", scripted_repository(tmp_path, block_s=0.2))


def test_only_networks_killed_in_the_middle_of_a_recording_delay_it(one, connect):
    wire, samples = connect("grpc", one), meeting(5)
    undisturbed = wire.diarize(samples)
    running = Running(wire, samples)
    sleep(0.5)
    stubs(one, "diar_nn_g0")[0].kill()
    assert running.wait() == undisturbed


def test_killed_supervisor_leaves_nothing_running(one, connect):
    processes = psutil.Process(one.process.pid).children(recursive=True)
    running = Running(connect("grpc", one), meeting(20))
    sleep(0.5)
    one.process.kill()
    seconds_until(lambda: not [process for process in processes if process.is_running()], 10)
    running.wait()
    for region in one.regions():
        region.unlink()


@pytest.mark.slow
def test_twenty_starts_and_stops_leave_nothing(serve, tmp_path):
    repository = scripted_repository(tmp_path)
    for _ in range(20):
        served = serve("--model-repository", repository)
        processes = psutil.Process(served.process.pid).children(recursive=True)
        assert served.stop(signal.SIGTERM) == 0
        assert [process for process in processes if process.is_running()] == []
        assert served.regions() == []


@pytest.mark.slow
def test_real_networks_killed_in_the_middle_of_ten_minutes(serve, connect, dev):
    """The real thing, once for two diar_nn and once for one."""
    recording = dev["falcon_test"]
    samples = recording[: 10 * MINUTE] if len(recording) > 10 * MINUTE else _repeated(recording, 10 * MINUTE)
    for replicas in (2, 1):
        served = serve("--replicas", replicas)
        wire = connect("grpc", served)
        undisturbed = wire.diarize(samples)
        running = Running(wire, samples)
        sleep(3.0)
        stubs(served, "diar_nn_g0")[0].kill()
        assert running.wait(300) == undisturbed
        assert figures(served.ports[2]).get(LOST, 0) <= 2
        assert served.stop() == 0


def _repeated(samples, length):
    return np.tile(samples, -(-length // len(samples)))[:length]
