"""The supervisor's probes are real requests: every model answers them without an error."""

import pytest
from live import ROOT

from diar.supervise.control import Control
from diar.supervise.launch import Addresses
from diar.supervise.probes import probe_request
from diar.supervise.repository import read_models

MODELS = read_models(ROOT / "model_repository", "cpu")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_answers_its_probe(server, model):
    for _ in range(2):
        Control(Addresses("127.0.0.1", *server.ports), admin_key="").infer(probe_request(model), 60)
