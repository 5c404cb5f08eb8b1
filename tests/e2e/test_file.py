"""curl is a client: one file as the body of a request, options as headers."""

import json
import shutil
import subprocess

import av
import numpy as np
import pytest

URL = "http://127.0.0.1:{}/v2/models/diarize_file/infer"


@pytest.fixture
def curl(server):
    """The body of the answer to a file, sent as the README says."""
    if shutil.which("curl") is None:
        pytest.skip("no curl here")

    def send(file, *headers):
        command = ["curl", "-sS", "--data-binary", f"@{file}", "-H", "Inference-Header-Content-Length: 0"]
        command += [text for header in headers for text in ("-H", header)]
        return subprocess.run([*command, URL.format(server.ports[0])], capture_output=True, check=True).stdout

    return send


def encode(file, samples, codec):
    """Write (samples,) int16 as a file that libav can."""
    with av.open(str(file), "w") as container:
        stream = container.add_stream(codec, rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = 16_000
        resampler = av.AudioResampler(stream.format.name, "mono", 16_000, stream.frame_size or None)
        for part in [*resampler.resample(frame), *resampler.resample(None), None]:
            for packet in stream.encode(part):
                container.mux(packet)
    return file


def test_lines_of_rttm_are_found_with_grep(curl, grpc, speech, tmp_path):
    answer = curl(
        encode(tmp_path / "a.flac", speech, "flac"), "diar-num-speakers: 2", "Diar-File-Id: my call"
    )
    lines = [line for line in answer.split(b"\n") if line.startswith(b"SPEAKER")]
    direct = grpc.infer({"PCM": speech}, {"num_speakers": 2, "file_id": "my call"})
    assert b"\n".join(lines) + b"\n" == direct["RTTM"][0]


def test_other_formats_are_decoded_too(curl, speech, tmp_path):
    answer = curl(encode(tmp_path / "a.mp3", speech[: 10 * 16_000], "libmp3lame"))
    assert b'"num_speakers":' in answer
    assert b"\nSPEAKER recording 1 " in answer


def test_bad_files_and_options_are_errors_of_one_line(curl, tmp_path):
    text = tmp_path / "text"
    text.write_text("hello " * 1000)
    assert json.loads(curl(text))["error"].startswith("E_AUDIO_FORMAT|the file: no known format")
    (tmp_path / "nothing").touch()
    assert "error" in json.loads(curl(tmp_path / "nothing"))
    refused = json.loads(curl(text, "diar-num-speakers: two"))["error"]
    assert refused == "E_OPTION_TYPE|num_speakers: got 'two', expected an integer"


def test_file_as_a_tensor_works_as_well(grpc, speech, tmp_path):
    content = encode(tmp_path / "a.flac", speech[: 5 * 16_000], "flac").read_bytes()
    tensors = {"FILE": np.array([content], dtype=np.object_)}
    answer = grpc.infer(tensors, {"max_speakers": 3}, model="diarize_file")
    assert answer["RESULT"][0] == grpc.diarize(speech[: 5 * 16_000], max_speakers=3)
