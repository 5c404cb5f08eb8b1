import threading
import time
import wave

import numpy as np
import pytest
from diar_client import (
    AudioWarning,
    BlockClient,
    DiarizationClient,
)
from scripted_server import QUICK

from diar.errors import (
    InvalidAudio,
    InvalidOption,
)

NO_SHARED_MEMORY = (
    "Failed to process the request(s) … Failed to increase the shared memory pool size for key 'x'"
)
UNUSED_PORT = 9  # discard; nothing listens there


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
