from pathlib import Path

import numpy as np
import pytest
from counting_networks import Networks
from diar_client import DiarizationClient
from hypothesis import settings
from scripted_server import QUICK, scripted_server

from diar import block as block_module
from diar.block import BlockRunner
from diar.profile import load_profile

# the same examples at every run, and no clock: the machine may be busy
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def profile():
    return load_profile("pyannote_campplus")


@pytest.fixture(scope="session")
def two_tier():
    """The profile with pure passes."""
    return load_profile("pyannote_campplus_two_tier")


@pytest.fixture(scope="session")
def geometry(profile):
    return profile.geometry


@pytest.fixture(scope="session")
def profile_text():
    return (ROOT / "engines" / "profiles" / "pyannote_campplus.toml").read_text(encoding="utf-8")


@pytest.fixture
def networks(monkeypatch):
    networks = Networks()
    monkeypatch.setattr(block_module, "load_campplus_head", lambda *_: networks.head)
    monkeypatch.setattr(block_module, "choose_lane", networks.choose)
    return networks


@pytest.fixture
def runner(networks, profile, tmp_path):
    return BlockRunner(profile, tmp_path, threads=1)


@pytest.fixture
def server(profile):
    return scripted_server(profile)


@pytest.fixture(params=["grpc", "http"])
def url(request, server):
    url, stop = server.serve_grpc() if request.param == "grpc" else server.serve_http()
    yield url
    stop()


@pytest.fixture
def client(url):
    with DiarizationClient(url, timeout_s=30, patience=QUICK) as client:
        yield client


@pytest.fixture(scope="module")
def speech():
    """(samples,) int16 for the scripted networks: 2 blocks and a bit, two speakers in turn, then silence."""
    seconds = np.repeat([0.1, 0.2, 0.0], [30, 30, 15])
    return np.rint(np.repeat(seconds, 16_000) * 32768).astype(np.int16)
