from pathlib import Path

import pytest
import triton_python_backend_utils as pb_utils

from diar.profile import load_profile
from diar.supervise.repository import read_models

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def profile():
    return load_profile("pyannote_campplus")


@pytest.fixture(scope="session")
def repository():
    return ROOT / "model_repository"


@pytest.fixture(scope="session")
def parameters(repository):
    """Parameters of the committed models, by name."""
    return {model.name: model.parameters for model in read_models(repository, "cpu")}


@pytest.fixture(autouse=True)
def triton():
    """The fake, without callees, log lines and figures of earlier tests."""
    pb_utils._callees.clear()
    pb_utils.Logger._lines.clear()
    pb_utils.MetricFamily._all.clear()
    return pb_utils
