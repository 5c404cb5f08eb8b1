"""What the client makes of servers that refuse, recover, come late or are none."""

import json
import socket
import threading
import time

import numpy as np
import pytest
from diar_client import (
    BlockClient,
    DiarizationClient,
    Patience,
    ServerRefused,
    ServerUnreachable,
)
from kserve_stand_in import Refusal
from scripted_server import QUICK

from diar.errors import (
    Cancelled,
    InternalError,
    InvalidAudio,
    NetsUnavailable,
    Overloaded,
    SetupError,
)

NO_SHARED_MEMORY = (
    "Failed to process the request(s) … Failed to increase the shared memory pool size for key 'x'"
)
UNUSED_PORT = 9  # discard; nothing listens there


@pytest.mark.parametrize(
    ("status", "message", "error", "tries"),
    [
        pytest.param("INVALID_ARGUMENT", "E_AUDIO_TOO_LONG|got 5 h", InvalidAudio, 1, id="named"),
        pytest.param("INTERNAL", "E_INTERNAL|internal error", InternalError, 1, id="internal"),
        pytest.param("INTERNAL", "something else", InternalError, 1, id="unnamed"),
        pytest.param("UNAVAILABLE", "Exceeds maximum queue size", Overloaded, 4, id="queue-full"),
        pytest.param("UNAVAILABLE", "E_NETS_UNAVAILABLE|diar_nn_g0", NetsUnavailable, 4, id="no-nets"),
        pytest.param("INTERNAL", "Stub process 'd' is not healthy.", NetsUnavailable, 4, id="dead-stub"),
        pytest.param("NOT_FOUND", "unknown model: 'diarize'", NetsUnavailable, 4, id="reloading"),
        pytest.param("INTERNAL", NO_SHARED_MEMORY, Overloaded, 4, id="no-shared-memory"),
    ],
)
def test_error_of_the_server_is_named_and_retried_if_that_may_help(
    server, client, speech, status, message, error, tries
):
    def refuse(call):
        raise Refusal(status, message)

    server.models["diarize"] = refuse
    with pytest.raises(error) as failure:
        client.diarize(speech)
    assert type(failure.value) is error
    assert message.rpartition("|")[2] in failure.value.text
    assert len(server.calls) == tries


@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_server_that_recovers_is_not_noticed(server, client, speech, mode):
    expected = client.diarize(speech).to_json()
    failures = iter(["Exceeds maximum queue size", "Stub process 'x' is not healthy."])

    def wrap(answer):
        def sometimes(call):
            if message := next(failures, None):
                raise Refusal("UNAVAILABLE", message)
            return answer(call)

        return sometimes

    server.models = {name: wrap(answer) for name, answer in server.models.items()}
    assert client.diarize(speech, mode=mode).to_json() == expected


@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_time_out_is_cancelled_without_a_retry(server, url, speech, mode):
    answers = dict(server.models)
    server.models = {name: lambda call: time.sleep(0.4) or answers[call.model](call) for name in answers}
    start = time.monotonic()
    with (
        DiarizationClient(url, timeout_s=0.1, patience=QUICK) as client,
        pytest.raises(Cancelled, match="E_CANCELLED_DEADLINE"),
    ):
        client.diarize(speech, mode=mode)
    assert time.monotonic() - start < 0.35


@pytest.mark.parametrize("scheme", ["grpc", "http"])
@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_server_that_is_not_there_is_named(scheme, mode, speech):
    url = f"{scheme}://127.0.0.1:{UNUSED_PORT}"
    with DiarizationClient(url, patience=QUICK) as client, pytest.raises(ServerUnreachable) as failure:
        client.diarize(speech, mode=mode)
    assert failure.value.word == "E_SERVER_UNREACHABLE"
    assert url in failure.value.text


@pytest.mark.parametrize("scheme", ["grpc", "http"])
@pytest.mark.parametrize("ask", ["diarize", "blocks", "stream", "block"])
def test_server_that_comes_later_is_waited_for(server, speech, scheme, ask):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stops, failures = [], []
    start = server.serve_grpc if scheme == "grpc" else server.serve_http
    timer = threading.Timer(0.3, lambda: stops.append(start(port=port)[1]))
    timer.start()
    more = {"timeout_s": 30, "patience": Patience(10, 0.1, 0.5, tell=failures.append)}
    try:
        if ask == "block":
            with BlockClient(f"{scheme}://127.0.0.1:{port}", **more) as client:
                assert client.run(np.zeros(160_000, np.float32)).logits.shape[0] == 1
        else:
            with DiarizationClient(f"{scheme}://127.0.0.1:{port}", **more) as client:
                if ask == "stream":
                    with client.stream() as stream:
                        stream.push(speech)
                    assert stream.result.turns
                else:
                    assert client.diarize(speech, mode="blocks" if ask == "blocks" else "auto").turns
    finally:
        timer.join()
        stops[0]()
    assert {type(error) for error in failures} == {ServerUnreachable}


def test_model_that_is_loaded_anew_is_waited_for(server, client, speech):
    config, failures = server.config, iter([True, True])

    def loading(name):
        if next(failures, False):
            raise Refusal("NOT_FOUND", f"Request for unknown model: '{name}' is not found")
        return config(name)

    server.config = loading
    assert client.diarize(speech).turns


def test_other_protocol_is_refused(server, speech):
    grpc_url, stop = server.serve_grpc()
    try:
        with (
            DiarizationClient(grpc_url.replace("grpc:", "http:")) as client,
            pytest.raises(ServerRefused, match="is no Triton server"),
        ):
            client.diarize(speech)
    finally:
        stop()


def test_profile_that_is_not_known_here_is_refused(server, client, speech):
    server.configs["diarize"] = {"parameters": {"profile": {"string_value": "/etc/x.toml"}}, "output": []}
    with pytest.raises(ServerRefused, match=r"profile '/etc/x.toml', this client knows: pyannote_campplus"):
        client.diarize(speech)


def test_geometry_that_differs_is_refused(server, client, speech):
    config = json.loads(json.dumps(server.configs["diar_nn_g0"]))
    config["output"][0]["dims"] = [-1, 799, 16]
    server.configs["diar_nn_g0"] = config
    with pytest.raises(ServerRefused, match=r"LOGITS of \[-1, 799, 16\].* has \[-1, 589, 7\]"):
        client.diarize(speech, mode="blocks")


@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_server_without_our_models_is_refused(server, client, speech, mode):
    server.models, server.configs = {}, {}
    with pytest.raises(ServerRefused, match="E_SERVER_MODEL"):
        client.diarize(speech, mode=mode)


def test_nets_are_found_beyond_a_gap_and_in_any_number(server, client, speech):
    run = server.models["diar_nn_g0"]
    server.models = {f"diar_nn_g{index}": run for index in (1, 5, 17)}
    server.configs |= dict.fromkeys(server.models, server.configs["diar_nn_g0"])
    client.diarize(np.tile(speech, 8), mode="blocks")
    assert {call.model for call in server.calls} == server.models.keys()


@pytest.mark.parametrize("url", ["127.0.0.1:8001", "ftp://h:1", "grpc://", "grpc://h:99999", "grpc://h:1/x"])
def test_url_of_another_kind_is_refused(url):
    with pytest.raises(SetupError, match="E_SETUP_URL"):
        DiarizationClient(url)
