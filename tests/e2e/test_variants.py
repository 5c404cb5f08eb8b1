"""Varied copies of the repository on the real server: CPU replicas, and the contract of span16."""

import json

import numpy as np
import pytest
from live import ROOT

from diar.network_files import onnx_file
from diar.profile import load_profile


def blocks_run(wire, model):
    """Blocks that a diar_nn model has answered."""
    statistics = wire.client.get_inference_statistics(model, as_json=True)
    return int(statistics["model_stats"][0]["inference_count"])


def test_two_replicas_share_the_blocks_and_give_the_same_bytes(serve, connect, grpc, dev):
    samples = np.concatenate([dev["pyannote_sample"], dev["ami_EN2002a"]])[: 50 * 16_000]
    wire = connect("grpc", serve("--replicas", 2, "--probe-interval", 3600))
    assert wire.config("diarize")["parameters"]["nn_models"]["string_value"] == "diar_nn_g0,diar_nn_g1"
    assert wire.diarize(samples) == grpc.diarize(samples)
    assert [blocks_run(wire, model) for model in ("diar_nn_g0", "diar_nn_g1")] == [1, 1]


@pytest.fixture(scope="module")
def span16():
    profile = load_profile("span16")
    file = onnx_file(profile, "segmentation", ROOT / "engines" / "build")
    if not file.is_file():
        pytest.skip(f"no {file}: run scripts/export_onnx --profile span16")
    return profile


def test_span16_answers_exactly_as_its_contract_says(serve, connect, span16, speech):
    wire = connect("grpc", serve("--profile", "span16"))
    span = speech[:435_200].astype(np.float32) / 32_768
    assert span.nbytes == 1_740_800
    outputs = wire.infer({"SPAN": span}, model="diar_nn_g0", outputs=["LOGITS", "EMBEDDINGS", "SPEECH"])
    logits = outputs["LOGITS"]
    assert (logits.shape, logits.dtype, logits.nbytes) == ((8, 799, 16), np.float32, 409_088)
    np.testing.assert_allclose(np.exp(logits).sum(axis=2), 1, atol=1e-4)
    assert (outputs["EMBEDDINGS"].shape, outputs["SPEECH"].shape) == ((8, 4, 192), (8, 4))
    result = json.loads(wire.diarize(speech))
    assert (result["profile"], result["duration"]) == ("span16", 30.0)
    assert result["turns"]  # of an untrained network: whose, and when, means nothing
