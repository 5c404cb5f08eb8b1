"""Hostile input: whatever comes, the answer is a named error, and the next good request is right."""

import http.client
import json
import re
from pathlib import Path

import numpy as np
import pytest
from health import is_ready, meeting
from live import DATA, start_and_wait
from scripted_repository import scripted_repository

SEED, MUTATIONS = 24, 1000
TRITONS_OWN = re.compile(  # what Triton itself refuses before a model sees it; no traces, no paths
    r"^(?!.*(Traceback|File \"|/diar/|site-packages)).{3,}", re.DOTALL
)


@pytest.fixture(scope="module")
def served(weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    repository = scripted_repository(folder, only=("diarize", "diarize_events", "diarize_file"))
    served = start_and_wait(["--model-repository", repository], folder / "log")
    yield served
    assert served.stop() == 0
    served.process.stdout.close()


def post(served, path, body, headers):
    """(status, body) of the answer; (0, b"") if the server hung up."""
    connection = http.client.HTTPConnection("127.0.0.1", served.ports[0], timeout=60)
    try:
        connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (http.client.HTTPException, ConnectionError):
        return 0, b""
    finally:
        connection.close()


def valid_request(rng):
    """(path, document, tensors' bytes) of a request that would be answered."""
    samples = meeting(0.1, seed=int(rng.integers(9)))
    model, name, kind, content, length = [
        ("diarize", "PCM", "INT16", samples.tobytes(), len(samples)),
        ("diarize", "AUDIO", "FP32", (samples / np.float32(32768)).tobytes(), len(samples)),
        ("diar_nn_g0", "SPAN", "FP32", np.zeros(160_000, np.float32).tobytes(), 160_000),
        ("diarize_file", "FILE", "BYTES", (4).to_bytes(4, "little") + b"RIFF", 1),
    ][rng.integers(4)]
    tensor = {
        "name": name,
        "datatype": kind,
        "shape": [length],
        "parameters": {"binary_data_size": len(content)},
    }
    document = {"id": "fuzz", "parameters": {"binary_data_output": True}, "inputs": [tensor]}
    return f"/v2/models/{model}/infer", document, content


def mutate_tensor(rng, document, content):
    tensor = document["inputs"][0]
    what = rng.integers(8)
    if what == 0:
        tensor["shape"] = [[0], [-1], [], [2**62], [1, tensor["shape"][0]], ["many"], None][rng.integers(7)]
    elif what == 1:
        tensor["datatype"] = ["FP64", "BYTES", "INT16", "FP32", "", "INT161", 7][rng.integers(7)]
    elif what == 2:
        tensor["name"] = ["PCM", "AUDIO", "SPAN", "FILE", "", "../x", "ä"][rng.integers(7)]
    elif what == 3:
        tensor["parameters"]["binary_data_size"] = int(rng.integers(-5, 2**40))
    elif what == 4:
        content = content[: rng.integers(len(content))]
    elif what == 5:
        content = rng.bytes(len(content))  # NaN, infinity, huge numbers; a file of noise
    elif what == 6:
        document["inputs"] = document["inputs"] * int(rng.integers(0, 4))
    else:
        tensor["data"] = [[1, 2], "text", [None], {}][rng.integers(4)]
    return content


def mutate_parameters(rng, document):
    names = ["num_speakers", "min_speakers", "max_speakers", "file_id", "timings", "timeout", "priority", "x"]
    values = [
        0,
        -1,
        2**63,
        1e308,
        "",
        "a" * 10_000,
        "\u0000",
        "../../etc/passwd",
        True,
        None,
        [],
        {"a": 1},
        2,
    ]
    for _ in range(rng.integers(1, 4)):
        document["parameters"][names[rng.integers(len(names))]] = values[rng.integers(len(values))]
    document["id"] = ["fuzz", "", 7, None, "x" * 5000][rng.integers(5)]


def mutated(rng):
    """(path, body, headers) of a request with one thing wrong, or several."""
    path, document, content = valid_request(rng)
    kind = rng.integers(5)
    if kind in (0, 1):
        content = mutate_tensor(rng, document, content)
    if kind in (1, 2):
        mutate_parameters(rng, document)
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    body = head + content
    if kind == 3:  # bytes of the head, anywhere
        broken = bytearray(body)
        for _ in range(rng.integers(1, 6)):
            broken[rng.integers(len(head))] = rng.integers(256)
        body = bytes(broken)
    elif kind == 4:
        headers["Inference-Header-Content-Length"] = ["0", "-1", "5", str(2**40), "x", ""][rng.integers(6)]
    return path, body, headers


def test_thousand_mutations_are_refused_by_name_or_answered(served, connect):
    wire = connect("grpc", served)
    expected = wire.diarize(meeting(1))
    rng = np.random.default_rng(SEED)
    for number in range(MUTATIONS):
        path, body, headers = mutated(rng)
        status, answer = post(served, path, body, headers)
        assert status in (200, 400, 500, 503), (number, status, answer[:300])
        if status != 200:
            text = json.loads(answer.decode(errors="replace"))["error"]
            assert TRITONS_OWN.match(text), (number, text)
            assert "E_INTERNAL" not in text, (number, text)
        if number % 100 == 99:
            assert wire.diarize(meeting(1)) == expected
    assert is_ready(served)
    assert "healing" not in served.log.read_text()


@pytest.mark.parametrize(
    "file",
    sorted((DATA / "odd").glob("*")) or [None],
    ids=lambda file: file.name if file else "no-files-at-shared-data-odd",
)
def test_odd_file_is_answered_or_refused_by_name(served, file):
    if file is None or not Path(file).is_file():
        pytest.skip(f"no files at {DATA / 'odd'}")
    status, answer = post(
        served,
        "/v2/models/diarize_file/infer",
        file.read_bytes(),
        {"Inference-Header-Content-Length": "0"},
    )
    if status != 200:
        assert status == 400, answer
        assert json.loads(answer)["error"].startswith("E_AUDIO_")
