from pathlib import Path

import pytest
from hypothesis import settings

from diar.profile import load_profile

# the same examples at every run, and no clock: the machine may be busy
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def profile():
    return load_profile("pyannote_campplus")


@pytest.fixture(scope="session")
def geometry(profile):
    return profile.geometry


@pytest.fixture(scope="session")
def profile_text():
    return (ROOT / "engines" / "profiles" / "pyannote_campplus.toml").read_text(encoding="utf-8")
