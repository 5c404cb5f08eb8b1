import asyncio
import io
import json
import os
import subprocess
import sys
import wave

import numpy as np
import pytest
import triton_python_backend_utils as pb_utils
from scripted import initialize_arguments, scripted_nets

from diar.errors import InvalidAudio, InvalidOption
from diar.serving.decoding import DecodingLimits, decode_apart
from diar.serving.file_model import TritonPythonModel, option_parameters

LIMITS = DecodingLimits(seconds=60, memory_bytes=3 << 29, samples=16_000 * 100)


def wave_file(samples, rate=16_000, channels=1):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.asarray(samples, np.int16).tobytes())
    return buffer.getvalue()


SPEECH = wave_file(np.full(20 * 16_000, 3277))


@pytest.fixture
def make_model(repository, parameters, profile, triton):
    triton._callees["diar_nn_g0"] = scripted_nets(profile)

    def make(**changes):
        model = TritonPythonModel()
        settings = {**parameters["diarize_file"], **{key: str(value) for key, value in changes.items()}}
        model.initialize(initialize_arguments("diarize_file", repository, settings))
        return model

    return make


def execute(model, content, parameters=None):
    request = pb_utils.InferenceRequest(
        model_name="diarize_file",
        requested_output_names=["RESULT", "EMBEDDINGS", "RTTM"],
        inputs=[pb_utils.Tensor("FILE", np.array([content], dtype=np.object_))],
        parameters=parameters,
    )
    (response,) = asyncio.run(model.execute([request]))
    return response


def error(response):
    return response.error().code(), response.error().message()


def test_file_becomes_result_embeddings_and_at_last_rttm(make_model):
    response = execute(make_model(), SPEECH, {"diar-file-id": "my call", "diar-max-speakers": "3"})
    assert not response.has_error(), response.error().message()
    names = [tensor.name() for tensor in response.output_tensors()]
    assert names == ["RESULT", "EMBEDDINGS", "RTTM"]
    document, embeddings, rttm = (tensor.as_numpy() for tensor in response.output_tensors())
    assert json.loads(document[0])["duration"] == 20.0
    assert "notes" not in json.loads(document[0])
    assert embeddings.shape == (1, 192)
    assert rttm[0].startswith(b"\nSPEAKER my_call 1 0.000 20.000 ")


def test_how_a_file_was_read_is_said(make_model):
    left = np.random.default_rng(0).integers(-3000, 3000, 16_000)
    response = execute(make_model(), wave_file(np.stack([left, -left], axis=1), channels=2))
    (note,) = json.loads(response.output_tensors()[0].as_numpy()[0])["notes"]
    assert note.startswith("its channels cancel each other")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "E_AUDIO_EMPTY", id="nothing"),
        pytest.param(b"hello" * 1000, "E_AUDIO_FORMAT", id="text"),
        pytest.param(b"#EXTM3U\n/etc/passwd\n", "E_AUDIO_FORMAT", id="playlist"),
        pytest.param(wave_file(np.zeros(0)), "E_AUDIO_EMPTY", id="no-samples"),
    ],
)
def test_bad_file_is_refused_by_name(make_model, content, word):
    code, message = error(execute(make_model(), content))
    assert (code, message.split("|")[0]) == (pb_utils.TritonError.INVALID_ARG, word)


def test_too_large_and_too_long_files_are_refused_with_the_limit(make_model):
    model = make_model(max_file_bytes=640_000, max_recording_s=10)
    assert error(execute(model, SPEECH))[1] == (
        f"E_AUDIO_TOO_LARGE|got a file of {len(SPEECH)} bytes, expected at most 640000"
    )
    assert error(execute(model, SPEECH[: 11 * 32_000]))[1] == (
        "E_AUDIO_TOO_LONG|the file: got more than 10.000 s of audio, the limit"
    )


def test_headers_are_read_as_options_whatever_their_case():
    headers = {"DIAR-NUM-SPEAKERS": " 2", "diar-Timings": "True", "diar-file-id": "7 "}
    assert option_parameters(headers) == {"num_speakers": 2, "timings": True, "file_id": "7"}
    assert option_parameters({"num_speakers": 2}) == {"num_speakers": 2}
    assert option_parameters({"diar-num-speakers": "two"}) == {"num_speakers": "two"}


def test_option_given_twice_is_refused():
    with pytest.raises(InvalidOption, match="num_speakers: got it twice"):
        option_parameters({"diar-num-speakers": "2", "num_speakers": 3})


def test_decoded_samples_are_those_of_the_file():
    samples = np.random.default_rng(0).integers(-9000, 9000, 16_001).astype(np.int16)
    decoded, notes = decode_apart(wave_file(samples), LIMITS)
    assert np.array_equal(decoded, samples)
    assert notes == []


def test_decoding_that_takes_too_long_is_ended():
    limits = DecodingLimits(seconds=0, memory_bytes=LIMITS.memory_bytes, samples=LIMITS.samples)
    with pytest.raises(InvalidAudio, match=r"E_AUDIO_DECODING\|the file: decoding took more than 0 s"):
        decode_apart(SPEECH, limits)


def test_decoding_that_takes_too_much_memory_is_refused():
    limits = DecodingLimits(seconds=60, memory_bytes=100 << 20, samples=LIMITS.samples)
    with pytest.raises(InvalidAudio, match=r"E_AUDIO_(DECODING|MEMORY)"):
        decode_apart(SPEECH, limits)


def test_decoder_that_dies_takes_nothing_with_it(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -SEGV $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(InvalidAudio, match="E_AUDIO_DECODING"):
        decode_apart(SPEECH, LIMITS)


def test_decoding_leaves_no_files_and_no_descriptors():
    before = set(os.listdir("/proc/self/fd"))
    for content in (SPEECH, b"text"):
        try:
            decode_apart(content, LIMITS)
        except InvalidAudio:
            continue
    assert set(os.listdir("/proc/self/fd")) == before


def test_worker_keeps_within_its_limits():
    code = (
        "import resource, diar.decode_worker as w; w.limit(2**32, 7); print(resource.getrlimit(resource.{}))"
    )
    for name, most in (("RLIMIT_AS", 2**32), ("RLIMIT_CPU", 7), ("RLIMIT_CORE", 0)):
        printed = subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True)
        assert printed.stdout.strip() == f"({most}, {most})", printed.stderr
