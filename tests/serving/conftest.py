from pathlib import Path

import pytest
import triton_python_backend_utils as pb_utils
from scripted import initialize_arguments, scripted_nets

from diar.profile import load_profile
from diar.serving.stream_model import TritonPythonModel
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


@pytest.fixture
def nets(profile, triton):
    nets = scripted_nets(profile)
    triton._callees["diar_nn_g0"] = nets
    return nets


@pytest.fixture
def start_model(repository, parameters):
    """diarize_stream models with other parameters than the committed ones; ended with the test."""
    models = []

    def start(**changes):
        model = TritonPythonModel()
        settings = {**parameters["diarize_stream"], **{key: str(value) for key, value in changes.items()}}
        model.initialize(initialize_arguments("diarize_stream", repository, settings))
        models.append(model)
        return model

    yield start
    for model in models:
        model.finalize()


@pytest.fixture
def model(start_model, nets):
    return start_model()
