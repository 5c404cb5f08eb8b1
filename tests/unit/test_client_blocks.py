"""Block mode: which diar_nn a block goes to, what is kept when one fails, when it is used."""

import threading
import time

import numpy as np
import pytest
from kserve_stand_in import Refusal
from scripted_server import MAX_RECORDING_S, QUICK, scripted_server

from diar.errors import NetsUnavailable

UNHEALTHY = Refusal("INTERNAL", "Stub process 'diar_nn_g0_0_0' is not healthy.")


@pytest.fixture(scope="module")
def speech():
    """(samples,) int16 for the scripted networks: 8 blocks, two speakers in turn."""
    seconds = np.repeat([0.1, 0.2] * 4, 32)
    return np.rint(np.repeat(seconds, 16_000) * 32768).astype(np.int16)


def failing(server, name, *failures):
    """Make a model raise ``failures``, one at each request, then work; None works at once."""
    answer, turn, lock = server.models[name], iter(failures), threading.Lock()

    def sometimes(call):
        with lock:
            failure = next(turn, None)
        if failure:
            raise failure
        return answer(call)

    server.models[name] = sometimes


def test_blocks_of_a_dead_net_go_to_the_other_one(server, client, speech):
    expected = client.diarize(speech, mode="server").to_json()
    failing(server, "diar_nn_g0", *[UNHEALTHY] * 1000)
    server.calls.clear()
    assert client.diarize(speech, mode="blocks").to_json() == expected
    asked = [call.model for call in server.calls]
    assert asked.count("diar_nn_g1") == 8
    assert asked.count("diar_nn_g0") <= 2 + QUICK.retries  # two at once, then single tries after longer rests


def test_net_that_comes_back_is_used_again(server, client, speech):
    answer = server.models["diar_nn_g1"]
    server.models["diar_nn_g1"] = lambda call: time.sleep(0.1) or answer(call)
    failing(server, "diar_nn_g0", UNHEALTHY, UNHEALTHY)
    client.diarize(speech, mode="blocks")
    assert [call.model for call in server.calls].count("diar_nn_g0") > 2


def test_nets_that_are_all_away_for_a_moment_are_waited_for(server, client, speech):
    for name in ("diar_nn_g0", "diar_nn_g1"):
        failing(server, name, None, *[UNHEALTHY] * 4)
    assert client.diarize(speech, mode="blocks").to_json() == client.diarize(speech, mode="server").to_json()


def test_last_failure_is_raised_when_no_net_works(server, client, speech):
    for name in ("diar_nn_g0", "diar_nn_g1"):
        failing(server, name, *[UNHEALTHY] * 1000)
    with pytest.raises(NetsUnavailable, match="is not healthy"):
        client.diarize(speech, mode="blocks")
    assert len(server.calls) <= 2 * (2 + QUICK.retries)


def test_run_goes_on_where_it_stopped(server, client, speech):
    failures = [None, None, None, *[UNHEALTHY] * 30]
    del server.models["diar_nn_g1"]
    failing(server, "diar_nn_g0", *failures)
    run = client.blocks(speech, file_id="x")
    seen = []
    with pytest.raises(NetsUnavailable):
        seen += [block.index for block in run]
    server.models["diar_nn_g0"] = scripted_server(client.run_async(client._inner.profile())).models[
        "diar_nn_g0"
    ]
    server.calls.clear()
    again = [(block.index, block.done, block.total) for block in run]
    assert len(server.calls) == len(again) == 8 - 3
    assert [done for _, done, _ in again] == [4, 5, 6, 7, 8]
    assert list(run) == []
    assert run.result().to_json() == client.diarize(speech, mode="server", file_id="x").to_json()


def test_recording_is_resumed_after_a_failure_as_long_as_that_helps(server, client, speech):
    del server.models["diar_nn_g1"]
    failing(server, "diar_nn_g0", *[None, *[UNHEALTHY] * 4] * 2, *[None] * 2)
    assert client.diarize(speech, mode="blocks").num_samples == len(speech)


def test_blocks_say_where_they_lie(client, speech):
    blocks = sorted(client.blocks(speech[: 16_000 * 50]), key=lambda block: block.index)
    assert [(block.start, block.end) for block in blocks] == [(0, 656_000), (512_000, 800_000)]


def test_iteration_that_is_left_cancels_what_runs(server, client, speech):
    for _ in client.blocks(speech):
        break
    time.sleep(0.2)
    before = len(server.calls)
    time.sleep(0.2)
    assert len(server.calls) == before < 8


@pytest.mark.parametrize(("limit_s", "model"), [(60, "diar_nn"), (MAX_RECORDING_S, "diarize")])
def test_auto_uses_blocks_for_what_is_too_long(server, client, speech, limit_s, model):
    server.configs["diarize"]["parameters"]["max_recording_s"]["string_value"] = str(limit_s)
    client.diarize(speech)
    assert {call.model.rpartition("_g")[0] or call.model for call in server.calls} == {model}


def test_samples_are_given_up_before_the_clustering(client, speech):
    run = client.blocks(speech)
    list(run)
    assert run._inner._samples is None
