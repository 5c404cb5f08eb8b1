"""Whole blocks of a real conversation through TensorRT lanes on the fake runtime."""

import fake_tensorrt
import numpy as np
import pytest
import torch

from diar import block
from diar.block import BlockRunner
from diar.errors import InternalError
from diar.lanes.lane import Lane
from diar.lanes.shapes import input_shapes
from diar.lanes.tensorrt import TensorRtLane
from diar.network_files import onnx_file
from diar.plans import Plan
from diar.profile import load_profile

CPU = torch.device("cpu")
PROFILES = {"span": "pyannote_campplus", "two_tier": "pyannote_campplus_two_tier"}
PROFILE = load_profile(PROFILES["span"])


class OnnxRuntimeLane(Lane):
    """The same file in the same runtime, without addresses."""

    name = "onnxruntime"

    def __init__(self, onnx):
        self._session = fake_tensorrt.session(onnx)

    def run(self, inputs):
        name = self._session.get_inputs()[0].name
        return torch.from_numpy(self._session.run(None, {name: inputs.contiguous().numpy()})[0])

    def close(self):
        del self._session


@pytest.fixture
def make_runner(weights_dir, onnx_dir, tmp_path, monkeypatch):
    """A BlockRunner whose two lanes are made by a function of network and ONNX file."""

    def make(make_lane, profile=PROFILE):
        def choose(wish, network, module, profile, engines_dir, device, threads):
            return make_lane(network, onnx_file(profile, network, engines_dir))

        monkeypatch.setattr(block, "choose_lane", choose)
        return BlockRunner(profile, weights_dir.parent, threads=1)

    return make


@pytest.fixture
def tensorrt_lane(tmp_path):
    """Makes a lane; faults: by network."""

    def make_for(**faults):
        def make(network, onnx):
            shapes = input_shapes(PROFILE, network)
            file = tmp_path / f"{network}.plan"
            fault = faults.get(network, "")
            file.write_bytes(fake_tensorrt.fake_plan(onnx, shapes.least, shapes.most, fault))
            zeros = "0" * 64
            plan = Plan(
                file=file.name,
                sha256=zeros,
                onnx=str(onnx),
                onnx_sha256=zeros,
                network=onnx.stem,
                profile=PROFILE.name,
                precision="fp32",
                flavour="tensorrt",
                version=fake_tensorrt.__version__,
                capability="sm89",
                gpu="",
                shapes=shapes,
                built="",
                build_s=0.0,
            )
            return TensorRtLane(plan, tmp_path, CPU, fake_tensorrt, lambda: 7)

        return make

    return make_for


def span(sample, num_windows):
    start = 3 * 16_000
    return sample[start : start + PROFILE.geometry.span_samples(num_windows)].numpy()


@pytest.mark.parametrize("variant", PROFILES)
def test_blocks_in_changing_order_equal_the_runtime_to_the_last_bit(
    make_runner, tensorrt_lane, sample, variant
):
    profile = load_profile(PROFILES[variant])
    runner = make_runner(tensorrt_lane(), profile)
    plain = make_runner(lambda network, onnx: OnnxRuntimeLane(onnx), profile)
    assert runner.lanes == ("tensorrt:fp32", "tensorrt:fp32")
    for num_windows in (2, 1, 2):
        got, expected = runner.run(span(sample, num_windows)), plain.run(span(sample, num_windows))
        assert expected.speech.any()
        assert expected.pure_embeddings.any() == (variant == "two_tier")
        for name in ("logits", "embeddings", "speech", "pure_embeddings"):
            assert np.array_equal(getattr(got, name), getattr(expected, name)), name


@pytest.mark.parametrize("network", ["segmentation", "trunk"])
def test_an_output_that_is_not_finite_is_an_error(make_runner, tensorrt_lane, sample, network):
    runner = make_runner(tensorrt_lane(**{network: "nan"}))
    with pytest.raises(InternalError, match=r"E_INTERNAL_NONFINITE\|"):
        runner.run(span(sample, 2))


@pytest.mark.parametrize("network", ["segmentation", "trunk"])
def test_a_refused_inference_is_an_error(make_runner, tensorrt_lane, sample, network):
    runner = make_runner(tensorrt_lane(**{network: "execute_async_v3"}))
    with pytest.raises(InternalError, match=r"E_INTERNAL_LANE\|.*execute_async_v3"):
        runner.run(span(sample, 2))
