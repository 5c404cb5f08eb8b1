"""Who may do what: the API key, the supervisor's key, TLS, and what no request can reach."""

import http.client
import json

import numpy as np
import pytest
import tritonclient.grpc
import trustme
from health import is_ready, meeting
from live import start_and_wait
from scripted_repository import scripted_repository
from tritonclient.utils import InferenceServerException

KEY = "not-a-secret-1"
METADATA = "triton-grpc-protocol-diar-api-key"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def locked(weights, folder):
    """A server that wants a key, and speaks TLS over gRPC."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    (folder / "key").write_text(KEY + "\n")
    tls = ["--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"]
    repository = scripted_repository(folder, only=("diarize", "diarize_file"))
    served = start_and_wait(
        ["--model-repository", repository, "--api-key-file", folder / "key", *tls], folder / "log"
    )
    yield served
    assert served.stop() == 0
    served.process.stdout.close()


def post(served, path, headers, body=b"{}"):
    """(status, text) of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", served.ports[0], timeout=30)
    try:
        connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def recording():
    samples = meeting(0.5)
    tensor = {"name": "PCM", "datatype": "INT16", "shape": [len(samples)], "data": samples.tolist()}
    return json.dumps({"inputs": [tensor], "outputs": [{"name": "RESULT"}]}).encode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 403, id="no-key"),
        pytest.param({"diar-api-key": "wrong"}, 403, id="wrong-key"),
        pytest.param({"admin-key": KEY}, 403, id="key-under-another-name"),
        pytest.param({"diar-api-key": KEY}, 200, id="key"),
    ],
)
def test_inference_over_http_wants_the_key(locked, headers, status):
    assert post(locked, "/v2/models/diarize/infer", headers, recording())[0] == status


@pytest.mark.parametrize("model", ["diarize", "diar_nn_g0"])
@pytest.mark.parametrize(
    "metadata", [pytest.param({}, id="no-key"), pytest.param({METADATA: "wrong"}, id="wrong-key")]
)
def test_inference_over_grpc_wants_the_key(grpc_client, model, metadata):
    tensor = tritonclient.grpc.InferInput("PCM", [9], "INT16")
    tensor.set_data_from_numpy(np.zeros(9, np.int16))
    with pytest.raises(InferenceServerException, match="restricted"):
        grpc_client.infer(model, [tensor], headers=metadata)


@pytest.fixture
def grpc_client(locked, folder):
    client = tritonclient.grpc.InferenceServerClient(
        f"127.0.0.1:{locked.ports[1]}", ssl=True, root_certificates=str(folder / "ca.pem")
    )
    yield client
    client.close()


def test_key_and_certificate_let_in_over_grpc(grpc_client):
    samples = meeting(0.5)
    tensor = tritonclient.grpc.InferInput("PCM", [len(samples)], "INT16")
    tensor.set_data_from_numpy(samples)
    answer = grpc_client.infer("diarize", [tensor], headers={METADATA: KEY})
    assert json.loads(answer.as_numpy("RESULT")[0])["turns"]


def test_supervisor_has_the_key_as_well(locked):
    assert is_ready(locked)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository/models/diarize/unload",
        "/v2/repository/models/diarize/load",
        "/v2/systemsharedmemory/region/x/register",
        "/v2/cudasharedmemory/region/x/register",
        "/v2/trace/setting",
        "/v2/logging",
    ],
)
def test_api_key_does_not_change_the_server(locked, path):
    assert post(locked, path, {"diar-api-key": KEY})[0] == 403


@pytest.mark.parametrize(
    "method", ["unload_model", "load_model", "get_system_shared_memory_status", "get_trace_settings"]
)
def test_api_key_does_not_change_the_server_over_grpc(grpc_client, method):
    arguments = ["diarize"] if method in ("unload_model", "load_model") else []
    with pytest.raises(InferenceServerException, match="restricted"):
        getattr(grpc_client, method)(*arguments, headers={METADATA: KEY})


def test_key_is_not_handed_to_the_models(locked):
    """It is a header that begins as those of diarize_file's options do."""
    status, text = post(
        locked,
        "/v2/models/diarize_file/infer",
        {"diar-api-key": KEY, "diar-timings": "true", "Inference-Header-Content-Length": "0"},
        b"no sound file",
    )
    assert status == 400
    assert "E_AUDIO_FORMAT" in text


@pytest.mark.parametrize("names", [["file_id"], ["file_id", "path"]])
def test_names_in_a_request_are_no_paths(locked, names):
    document = json.loads(recording())
    document["parameters"] = dict.fromkeys(names, "../../../etc/passwd")
    status, text = post(
        locked, "/v2/models/diarize/infer", {"diar-api-key": KEY}, json.dumps(document).encode()
    )
    assert status == (200 if names == ["file_id"] else 400)
    assert "root:" not in text
