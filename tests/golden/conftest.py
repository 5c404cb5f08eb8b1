"""Where golden arrays, recordings and weights lie; a test that lacks one skips and says so."""

from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]


def existing(path, advice):
    if not path.exists():
        pytest.skip(f"no {path.relative_to(ROOT.parent)}: {advice}")
    return path


@pytest.fixture(scope="session")
def shared_data():
    return existing(ROOT.parent / "shared" / "data", "test data are not on this machine")


@pytest.fixture(scope="session")
def weights_dir():
    return existing(ROOT / "engines" / "build" / "weights", "run scripts/fetch_weights")


@pytest.fixture(scope="session")
def onnx_dir():
    return existing(ROOT / "engines" / "build" / "onnx", "run scripts/export_onnx")


@pytest.fixture(scope="session")
def sample(shared_data):
    """The recording of the golden arrays: (samples,) float32 in [-1, 1]."""
    av = pytest.importorskip("av")
    with av.open(str(shared_data / "dev" / "pyannote_sample.flac")) as container:
        resampler = av.AudioResampler("s16", "mono", 16_000)
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    pcm = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    return torch.from_numpy(pcm.astype(np.float32) / 32_768)


@pytest.fixture(scope="session")
def golden_segmentation(shared_data):
    return np.load(shared_data / "golden" / "segmentation.npz")


@pytest.fixture(scope="session")
def golden_campplus(shared_data):
    return np.load(shared_data / "golden" / "campplus.npz")
