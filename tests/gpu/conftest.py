"""Tests that need a CUDA device; elsewhere each of them is skipped and says so."""

from pathlib import Path

import pytest
import torch

from diar.profile import load_profile
from diar.tools.gpu_check import load_samples
from diar.tools.gpu_checks import Bench

ENGINES_DIR = Path(__file__).parents[2] / "engines" / "build"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", params=["pyannote_campplus", "pyannote_campplus_two_tier"])
def bench(request):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    profile = load_profile(request.param)
    if not (ENGINES_DIR / "weights" / profile.embedding.weights.file).is_file():
        pytest.skip("no weights: run scripts/fetch_weights")
    samples, _ = load_samples(ENGINES_DIR / "sample" / "sample.wav")
    return Bench(profile, ENGINES_DIR, torch.device("cuda:0"), samples)
