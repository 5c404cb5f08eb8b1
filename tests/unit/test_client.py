import json
import socket
import threading
import time
import wave

import numpy as np
import pytest
from diar_client import (
    AudioWarning,
    BlockClient,
    DiarizationClient,
    Patience,
    ServerRefused,
    ServerUnreachable,
)
from kserve_stand_in import Refusal
from scripted_server import scripted_server

from diar.errors import (
    Cancelled,
    InternalError,
    InvalidAudio,
    InvalidOption,
    NetsUnavailable,
    Overloaded,
    SetupError,
)
from diar.profile import load_profile

QUICK = Patience(retries=3, first_wait_s=0.01)
NO_SHARED_MEMORY = (
    "Failed to process the request(s) … Failed to increase the shared memory pool size for key 'x'"
)
UNUSED_PORT = 9  # discard; nothing listens there


@pytest.fixture(scope="module")
def profile():
    return load_profile("pyannote_campplus")


@pytest.fixture
def server(profile):
    return scripted_server(profile)


@pytest.fixture(params=["grpc", "http"])
def url(request, server):
    url, stop = server.serve_grpc() if request.param == "grpc" else server.serve_http()
    yield url
    stop()


@pytest.fixture
def client(url):
    with DiarizationClient(url, timeout_s=30, patience=QUICK) as client:
        yield client


@pytest.fixture(scope="module")
def speech():
    """(samples,) int16 for the scripted networks: 2 blocks and a bit, two speakers in turn, then silence."""
    seconds = np.repeat([0.1, 0.2, 0.0], [30, 30, 15])
    return np.rint(np.repeat(seconds, 16_000) * 32768).astype(np.int16)


def write_wav(path, samples, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return path


def test_recording_comes_back_as_turns(client, speech):
    result = client.diarize(speech)
    assert result.num_samples == len(speech)
    assert [speaker.label for speaker in result.speakers] == ["SPEAKER_00", "SPEAKER_01"]
    assert result.turns
    assert result.embeddings.shape == (2, 192)


def test_json_is_the_result_as_the_server_sent_it(server, client, speech):
    sent = []
    answer = server.models["diarize"]
    server.models["diarize"] = lambda call: sent.append(answer(call)) or sent[-1]
    result = client.diarize(speech, file_id="a b", timings=False)
    assert result.to_json() == sent[0]["RESULT"][0]
    assert result.to_rttm().encode() == sent[0]["RTTM"][0]


def test_block_mode_gives_the_same_bytes(client, speech):
    assert client.diarize(speech, mode="blocks").to_json() == client.diarize(speech).to_json()


def test_block_mode_reports_progress_and_uses_every_net(server, client, speech):
    seen = []
    client.diarize(speech, mode="blocks", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert {call.model for call in server.calls} == {"diar_nn_g0", "diar_nn_g1"}


def test_block_mode_keeps_at_most_two_blocks_in_flight_per_net(server, client):
    lock, running, most = threading.Lock(), {}, {}

    def slowly(call, answer):
        with lock:
            running[call.model] = running.get(call.model, 0) + 1
            most[call.model] = max(most.get(call.model, 0), running[call.model])
        time.sleep(0.05)
        with lock:
            running[call.model] -= 1
        return answer(call)

    for name in ("diar_nn_g0", "diar_nn_g1"):
        server.models[name] = lambda call, answer=server.models[name]: slowly(call, answer)
    client.diarize(np.zeros(16_000 * 32 * 8, np.int16), mode="blocks")
    assert most == {"diar_nn_g0": 2, "diar_nn_g1": 2}


def test_timings_are_there_when_asked_for(client, speech):
    assert client.diarize(speech, mode="blocks").timings is None
    timings = client.diarize(speech, mode="blocks", timings=True).timings
    assert timings.keys() == {"blocks", "clustering", "stitching", "total"}


@pytest.mark.parametrize("mode", ["server", "blocks"])
def test_options_reach_the_pipeline(client, speech, mode):
    result = client.diarize(speech, num_speakers=1, file_id="my call", mode=mode)
    assert (result.requested, len(result.speakers), result.file_id) == (1, 1, "my_call")


def test_request_carries_pcm_parameters_and_timeout(server, client, speech):
    client.diarize(speech, min_speakers=1, max_speakers=4)
    (call,) = server.calls
    assert call.inputs.keys() == {"PCM"}
    assert np.array_equal(call.inputs["PCM"], speech)
    assert call.outputs == ["RESULT", "EMBEDDINGS"]
    wanted = {"min_speakers": 1, "max_speakers": 4, "file_id": "recording"}
    assert {key: call.parameters[key] for key in wanted} == wanted
    assert 0 < call.timeout <= 30_000_000


def test_float_array_is_sent_as_it_is(server, client):
    client.diarize(np.full(1000, 0.1, np.float64))
    (call,) = server.calls
    assert call.inputs["AUDIO"].dtype == np.float32


def test_file_gives_its_name_to_the_recording(client, tmp_path, speech):
    assert client.diarize(write_wav(tmp_path / "Team call.v2.wav", speech)).file_id == "Team_call.v2"


def test_note_about_a_file_is_a_warning(client, tmp_path):
    samples = np.tile(np.array([1000, -1000], np.int16), 1600)
    with pytest.warns(AudioWarning, match="odd.wav: its channels cancel each other"):
        client.diarize(write_wav(tmp_path / "odd.wav", samples, channels=2))


def test_no_speech_is_an_empty_result(client):
    result = client.diarize(np.zeros(1, np.int16))
    assert (result.num_samples, result.turns, result.embeddings.shape) == (1, (), (0, 192))


def test_several_threads_may_use_one_client(client, speech):
    expected = client.diarize(speech).to_json()
    results = [None] * 4

    def work(index):
        results[index] = client.diarize(speech, mode="blocks" if index % 2 else "server").to_json()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_long_recording_exceeds_no_message_limit(client):
    result = client.diarize(np.zeros(16_000 * 600, np.int16))  # 19.2 MB, gRPC's default limit is 4 MiB
    assert result.num_samples == 16_000 * 600


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        pytest.param({"num_speakers": 0}, InvalidOption, "E_OPTION_COUNT", id="zero"),
        pytest.param({"num_speakers": 2, "max_speakers": 3}, InvalidOption, "E_OPTION_CONFLICT", id="both"),
        pytest.param({"num_speakers": 2.0}, InvalidOption, "E_OPTION_TYPE", id="float"),
        pytest.param({"mode": "cloud"}, InvalidOption, "E_OPTION_MODE", id="mode"),
        pytest.param({"channel": 0}, InvalidOption, "E_OPTION_CHANNEL", id="channel-of-an-array"),
    ],
)
def test_bad_option_is_refused_before_anything_is_sent(server, client, speech, arguments, error, word):
    with pytest.raises(error) as failure:
        client.diarize(speech, **arguments)
    assert failure.value.word == word
    assert server.calls == []


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


def test_block_client_runs_one_span(url, profile):
    with BlockClient(url, timeout_s=30, patience=QUICK) as client:
        span = np.full(client.profile.geometry.span_samples(3), 0.2, np.float32)
        result = client.run(span)
    assert client.profile == profile
    assert result.logits.shape == (3, 589, 7)
    assert (result.logits.argmax(axis=-1) == 2).all()
    assert result.lanes == ("scripted", "scripted")


@pytest.mark.parametrize("span", [np.zeros(0, np.float32), np.zeros(10), np.zeros((1, 160_000), np.float32)])
def test_block_client_refuses_what_is_no_span(span):
    with BlockClient(f"grpc://127.0.0.1:{UNUSED_PORT}") as client, pytest.raises(InvalidAudio):
        client.run(span)


def test_forgotten_client_ends_its_thread(url):
    DiarizationClient(url).diarize(np.zeros(100, np.int16))
    deadline = time.monotonic() + 5
    while client_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not client_threads()


def client_threads():
    return [thread for thread in threading.enumerate() if thread.name == "diar_client"]
