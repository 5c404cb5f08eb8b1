import asyncio
import json

import numpy as np
import pytest
import triton_python_backend_utils as pb_utils
from scripted import initialize_arguments, scripted_nets

from diar.board import Board
from diar.errors import InternalError
from diar.pipeline import diarize
from diar.serving.diarize_model import TritonPythonModel
from diar.serving.nets import run_block
from diar.tensors import RECORDING_OUTPUTS

SPEECH, MINUTE = 3277, 60 * 16_000  # 0.1 of full scale: the first local speaker


@pytest.fixture
def model(repository, parameters):
    model = TritonPythonModel()
    model.initialize(initialize_arguments("diarize", repository, parameters["diarize"]))
    return model


def recording(parameters=None, **tensors):
    return pb_utils.InferenceRequest(
        model_name="diarize",
        requested_output_names=RECORDING_OUTPUTS,
        inputs=[pb_utils.Tensor(name, array) for name, array in tensors.items()],
        parameters=parameters,
    )


def pcm(num_samples=MINUTE, value=SPEECH):
    return np.full(num_samples, value, np.int16)


def execute(model, *requests):
    return asyncio.run(model.execute(requests))


def result_of(response):
    assert not response.has_error(), response.error().message()
    return json.loads(pb_utils.get_output_tensor_by_name(response, "RESULT").as_numpy()[0])


def error_of(response):
    return response.error().code(), response.error().message()


def test_recording_becomes_result_rttm_and_embeddings(model, nets):
    (response,) = execute(model, recording(PCM=pcm(), parameters={"file_id": "a b"}))
    result = result_of(response)
    assert result["duration"] == 60.0
    assert [speaker["label"] for speaker in result["speakers"]] == ["SPEAKER_00"]
    assert result["lanes"] == {"segmentation": "scripted", "embedding": "scripted"}
    assert "timings" not in result
    rttm = pb_utils.get_output_tensor_by_name(response, "RTTM").as_numpy()[0].decode()
    assert rttm.startswith("SPEAKER a_b 1 0.000 60.000 ")
    assert pb_utils.get_output_tensor_by_name(response, "EMBEDDINGS").as_numpy().shape == (1, 192)


def test_model_and_pipeline_give_the_same_bytes(model, nets, profile):
    (response,) = execute(model, recording(PCM=pcm()))
    direct = asyncio.run(diarize(pcm(), profile, [lambda span: run_block("diar_nn_g0", span)]))
    assert pb_utils.get_output_tensor_by_name(response, "RESULT").as_numpy()[0] == direct.to_json()


def test_float_and_pcm_give_the_same_bytes(model, nets):
    audio = pcm().astype(np.float32) / 32768
    as_float, as_pcm = execute(model, recording(AUDIO=audio), recording(PCM=pcm()))
    assert result_of(as_float) == result_of(as_pcm)


def test_silence_is_an_empty_success(model, nets):
    (response,) = execute(model, recording(PCM=pcm(value=0)))
    assert result_of(response)["turns"] == []
    assert pb_utils.get_output_tensor_by_name(response, "EMBEDDINGS").as_numpy().shape == (0, 192)


def test_timings_are_given_on_request(model, nets):
    (response,) = execute(model, recording(PCM=pcm(), parameters={"timings": True}))
    assert set(result_of(response)["timings"]) == {"blocks", "clustering", "stitching", "total"}


@pytest.mark.parametrize(
    ("tensors", "wishes", "word"),
    [
        pytest.param({}, {}, "E_AUDIO_INPUTS|got neither", id="neither"),
        pytest.param(
            {"AUDIO": np.zeros(9, np.float32), "PCM": pcm(9)},
            {},
            "E_AUDIO_INPUTS|got AUDIO and PCM",
            id="both",
        ),
        pytest.param({"PCM": pcm(0)}, {}, "E_AUDIO_EMPTY|", id="no-samples"),
        pytest.param({"AUDIO": np.full(9, np.nan, np.float32)}, {}, "E_AUDIO_NONFINITE|", id="nan"),
        pytest.param(
            {"PCM": pcm(9)}, {"colour": "red"}, "E_OPTION_UNKNOWN|got colour", id="unknown-parameter"
        ),
        pytest.param({"PCM": pcm(9)}, {"num_speakers": 0}, "E_OPTION_COUNT|", id="zero-speakers"),
        pytest.param(
            {"PCM": pcm(9)}, {"min_speakers": 3, "max_speakers": 2}, "E_OPTION_CONFLICT|", id="min-above-max"
        ),
    ],
)
def test_bad_request_is_refused_by_name_and_the_next_one_runs(model, nets, tensors, wishes, word):
    bad, good = execute(model, recording(wishes, **tensors), recording(PCM=pcm()))
    code, message = error_of(bad)
    assert code == pb_utils.TritonError.INVALID_ARG
    assert message.startswith(word)
    assert result_of(good)["duration"] == 60.0


def test_too_long_a_recording_is_refused_with_the_limit(repository, parameters, nets):
    model = TritonPythonModel()
    short = {**parameters["diarize"], "max_recording_s": "60"}
    model.initialize(initialize_arguments("diarize", repository, short))
    fits, exceeds = execute(model, recording(PCM=pcm()), recording(PCM=pcm(MINUTE + 1)))
    assert not fits.has_error()
    assert error_of(exceeds) == (
        pb_utils.TritonError.INVALID_ARG,
        "E_AUDIO_TOO_LONG|got 60.000 s of audio, expected at most 60 s",
    )


def test_error_of_the_networks_without_a_name_is_nets_unavailable(model, profile, triton):
    def die():
        raise RuntimeError("Stub process 'diar_nn_g0_0_0' is not healthy.")

    triton._callees["diar_nn_g0"] = scripted_nets(profile, die)
    (response,) = execute(model, recording(PCM=pcm()))
    assert error_of(response) == (
        pb_utils.TritonError.UNAVAILABLE,
        "E_NETS_UNAVAILABLE|diar_nn_g0 cannot take the block now; try again",
    )
    assert any("is not healthy" in line for _, line in triton.Logger._lines)


def test_internal_error_of_the_networks_stays_internal(model, profile, triton):
    def fail():
        raise InternalError("E_INTERNAL", "internal error; see the server log")

    triton._callees["diar_nn_g0"] = scripted_nets(profile, fail)
    (response,) = execute(model, recording(PCM=pcm()))
    assert error_of(response) == (
        pb_utils.TritonError.INTERNAL,
        "E_INTERNAL|internal error; see the server log",
    )


def test_cancelling_stops_the_recording_within_the_blocks_in_flight(model, profile, triton):
    requests = [recording(PCM=pcm(20 * MINUTE))]
    nets = scripted_nets(profile, lambda: requests[0]._cancel())
    triton._callees["diar_nn_g0"] = nets
    (response,) = execute(model, *requests)
    assert error_of(response)[0] == pb_utils.TritonError.CANCELLED
    assert len(nets.runner.calls) <= 2


def test_no_more_than_two_blocks_are_in_flight(model, profile, triton):
    scripted, in_flight, most = scripted_nets(profile), 0, 0

    async def counted(request):
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0)
        response = await scripted(request)
        in_flight -= 1
        return response

    triton._callees["diar_nn_g0"] = counted
    (response,) = execute(model, recording(PCM=pcm(20 * MINUTE)))
    assert result_of(response)["duration"] == 1200.0
    assert most == 2


def test_request_that_takes_longer_than_its_own_limit_ends(model, nets):
    request = recording(PCM=pcm())
    request._timeout = 1  # microseconds
    (response,) = execute(model, request)
    code, message = error_of(response)
    assert code == pb_utils.TritonError.CANCELLED
    assert message.startswith("E_CANCELLED_DEADLINE|not done within 1e-06 s, the request's own limit")


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A supervisor's board, in whose folder models are started."""
    board = Board.create(tmp_path / "board", log_json=True)
    monkeypatch.chdir(board.folder)
    return board


def test_draining_server_takes_no_new_recordings(board, model, nets):
    (before,) = execute(model, recording(PCM=pcm()))
    board.drain()
    (after,) = execute(model, recording(PCM=pcm()))
    assert not before.has_error()
    assert error_of(after)[0] == pb_utils.TritonError.UNAVAILABLE
    assert error_of(after)[1].startswith("E_OVERLOADED_DRAINING|")


def test_each_recording_is_one_line_of_the_log(board, model, nets, triton):
    execute(model, recording(PCM=pcm()), recording(PCM=pcm(0)))
    first, second = (
        json.loads(line.partition("recording ")[2])
        for _, line in triton.Logger._lines
        if "recording {" in line
    )
    assert (first["outcome"], first["audio_s"], first["speakers"]) == ("ok", 60.0, 1)
    assert set(first["stages_s"]) == {"blocks", "clustering", "stitching", "total"}
    assert set(second) == {"id", "outcome", "took_s"}
    assert second["outcome"] == "E_AUDIO_EMPTY"


def test_used_up_shared_memory_is_overload(model, nets, monkeypatch):
    def full(*arguments):
        raise RuntimeError("Failed to increase the shared memory pool size for key 'diar_1_x' to 9 bytes")

    monkeypatch.setattr(pb_utils, "Tensor", full)
    request = pb_utils.InferenceRequest(model_name="diarize", requested_output_names=[], inputs=[])
    request._inputs = [type("T", (), {"name": lambda self: "PCM", "as_numpy": lambda self: pcm(9)})()]
    (response,) = execute(model, request)
    assert error_of(response) == (
        pb_utils.TritonError.UNAVAILABLE,
        "E_OVERLOADED_MEMORY|no shared memory left; try again",
    )


def test_parameters_and_ids_that_are_no_text_are_refused_by_name(model, nets, monkeypatch):
    def no_text(self):
        return b"\xe0(".decode()

    monkeypatch.setattr(pb_utils.InferenceRequest, "parameters", no_text)
    monkeypatch.setattr(pb_utils.InferenceRequest, "request_id", no_text)
    (response,) = execute(model, recording(PCM=pcm()))
    assert error_of(response)[0] == pb_utils.TritonError.INVALID_ARG
    assert error_of(response)[1].startswith("E_OPTION_TEXT|")
