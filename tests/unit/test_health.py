"""The health check of the container, against the supervisor's own port."""

import pytest

from diar.supervise.health import main
from diar.supervise.status import Status, serve_status


@pytest.fixture
def status(tmp_path):
    return Status((tmp_path, "diar_"))


@pytest.fixture
def port(status):
    server = serve_status(status, "127.0.0.1", 0)
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def check(port, capsys):
    """Run the check: (exit status, what it printed)."""
    return lambda: (main(["--port", str(port)]), capsys.readouterr().out)


def test_a_server_that_serves_is_healthy(check, status):
    status.enter("serving")
    status.set_model("diarize", "serving")
    assert check() == (0, "ready\n")


def test_one_that_still_loads_is_not(check):
    assert check() == (1, "starting\n")


def test_a_broken_model_is_named(check, status):
    status.enter("serving")
    status.set_model("diar_nn_g0", "broken", "stub 7 is dead")
    assert check() == (1, "diar_nn_g0: broken: stub 7 is dead\n")


def test_no_supervisor_is_no_health(port, capsys):
    assert main(["--port", "1", "--timeout", "1"]) == 1
    assert capsys.readouterr().out.startswith("no answer from 127.0.0.1:1: ")
