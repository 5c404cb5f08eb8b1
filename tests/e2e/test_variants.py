"""Varied copies of the repository on the real server: two CPU replicas, span16's contract, pure passes."""

import json

import numpy as np
import pytest
from live import ROOT, start_and_wait
from streams import LiveWire

from diar.block import BlockRunner
from diar.local import diarize_local
from diar.network_files import onnx_file
from diar.profile import load_profile

ENGINES = ROOT / "engines" / "build"
REPLICAS = ("diar_nn_g0", "diar_nn_g1")


@pytest.fixture(scope="module")
def profile():
    profile = load_profile("span16")
    file = onnx_file(profile, "segmentation", ENGINES)
    if not file.is_file():
        pytest.skip(f"no {file}: run scripts/export_onnx --profile span16")
    return profile


@pytest.fixture(scope="module")
def wire(profile, connect, tmp_path_factory):
    """To a server of two replicas; no probes, so that the blocks can be counted."""
    arguments = ["--replicas", 2, "--profile", profile.name, "--probe-interval", 3600]
    served = start_and_wait(arguments, tmp_path_factory.mktemp("replicas") / "server.log")
    yield connect("grpc", served)
    assert served.stop() == 0
    served.process.stdout.close()


def blocks_run(wire):
    """Blocks that each diar_nn model has answered."""
    statistics = [wire.client.get_inference_statistics(model, as_json=True) for model in REPLICAS]
    return np.array([int(each["model_stats"][0].get("inference_count", 0)) for each in statistics])


def test_two_replicas_share_the_blocks_and_give_the_bytes_of_one(wire, profile, dev):
    samples = np.concatenate([dev["pyannote_sample"], dev["ami_EN2002a"]])[: 40 * 16_000]
    before = blocks_run(wire)
    answer = wire.diarize(samples)
    assert (blocks_run(wire) - before).tolist() == [1, 1]
    assert answer == diarize_local(samples, profile, BlockRunner(profile, ENGINES, threads=1)).to_json()
    result = json.loads(answer)
    assert (result["profile"], result["duration"]) == ("span16", 40.0)
    assert result["turns"]  # of an untrained network: whose, and when, means nothing


def test_callers_know_both_replicas_and_each_has_its_share_of_the_cores(wire):
    assert wire.config("diarize")["parameters"]["nn_models"]["string_value"] == ",".join(REPLICAS)
    for model in REPLICAS:
        config = wire.config(model)
        assert [group["kind"] for group in config["instance_group"]] == ["KIND_CPU"]
        assert int(config["parameters"]["threads"]["string_value"]) >= 1


def test_span16_answers_exactly_as_its_contract_says(wire, speech):
    span = speech[:435_200].astype(np.float32) / 32_768
    assert span.nbytes == 1_740_800
    outputs = wire.infer({"SPAN": span}, model="diar_nn_g1", outputs=["LOGITS", "EMBEDDINGS", "SPEECH"])
    logits = outputs["LOGITS"]
    assert (logits.shape, logits.dtype, logits.nbytes) == ((8, 799, 16), np.float32, 409_088)
    np.testing.assert_allclose(np.exp(logits).sum(axis=2), 1, atol=1e-4)
    assert (outputs["EMBEDDINGS"].shape, outputs["SPEECH"].shape) == ((8, 4, 192), (8, 4))


def test_profile_with_pure_passes_gives_its_bytes_whole_and_live(serve, connect, speech):
    profile = load_profile("pyannote_campplus_two_tier")
    served = serve("--profile", profile.name)
    answer = connect("grpc", served).diarize(speech)
    result = json.loads(answer)
    assert (result["profile"], len(result["speakers"])) == (profile.name, 2)
    assert answer == diarize_local(speech, profile, BlockRunner(profile, ENGINES)).to_json()
    live = LiveWire("grpc", served)
    assert live.stream_all(speech, 6) == answer  # its view asks for pure embeddings alone
    live.close()
    assert "falls behind" not in served.log.read_text()
