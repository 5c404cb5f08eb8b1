"""A real tritonserver, started by scripts/serve, and plain tritonclient to talk to it.

``serve(*arguments)`` starts one and gives a ``Served``; ``server`` is the one that a whole test run shares.
``grpc``, ``http`` and ``wire`` (both, one after the other) talk to the shared one. ``dev`` maps the names of
the labelled recordings to their samples.
"""

from pathlib import Path

import pytest
from live import DATA, ROOT, START_LIMIT_S, Served, Wire, free_ports, read_recording, start, start_and_wait

from diar.errors import SetupError
from diar.supervise.preflight import check_files
from diar.supervise.repository import read_models


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.triton)


@pytest.fixture(scope="session", autouse=True)
def weights():
    """Skip everything here, visibly, where scripts/fetch_weights and scripts/export_onnx were not run."""
    repository = ROOT / "model_repository"
    try:
        check_files(read_models(repository, "cpu"), repository, cpu=True)
    except SetupError as err:
        pytest.skip(err.text)


@pytest.fixture
def serve(tmp_path):
    """Start servers of a test's own; they are ended with it."""
    started = []

    def start_own(*arguments, **more):
        started.append(start_and_wait(arguments, tmp_path / f"server{len(started)}.log", **more))
        return started[-1]

    yield start_own
    for served in started:
        if served.process.poll() is None:
            served.stop()
        served.process.stdout.close()


@pytest.fixture
def spawn(tmp_path):
    """Start scripts/serve without waiting for it. Killed with the test."""
    started = []

    def start_own(*arguments):
        ports, log = free_ports(), tmp_path / f"spawned{len(started)}.log"
        started.append(Served(start(arguments, ports, log), ports, log, []))
        return started[-1]

    yield start_own
    for served in started:
        served.process.kill()
        served.process.communicate()


@pytest.fixture
def refused(spawn):
    """Start a server that must not come up; gives the last line of its log."""

    def start_refused(*arguments):
        served = spawn(*arguments)
        printed, _ = served.process.communicate(timeout=START_LIMIT_S)
        assert (served.process.returncode, printed) == (1, "")
        return served.log.read_text().splitlines()[-1]

    return start_refused


@pytest.fixture(scope="session")
def server(weights, tmp_path_factory):
    """The server that a test run shares; it must end well and leave nothing behind."""
    served = start_and_wait([], tmp_path_factory.mktemp("e2e") / "server.log")
    yield served
    assert served.stop() == 0, served.log.read_text()[-4000:]
    assert served.regions() == []
    served.process.stdout.close()


@pytest.fixture(scope="session")
def connect():
    """``connect(protocol, served)`` gives a Wire."""
    wires = []

    def open_wire(protocol, served):
        wires.append(Wire(protocol, served))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.client.close()


@pytest.fixture(scope="session")
def grpc(server, connect):
    return connect("grpc", server)


@pytest.fixture
def http(server, connect):
    return connect("http", server)


@pytest.fixture(params=["grpc", "http"])
def wire(request, server, connect):
    return connect(request.param, server)


@pytest.fixture(scope="session")
def dev():
    """The labelled recordings: name -> (samples,) int16."""
    files = sorted((DATA / "dev").glob("*.flac"))
    if not files:
        pytest.skip(f"no recordings at {DATA / 'dev'}")
    return {file.stem: read_recording(file) for file in files}


@pytest.fixture(scope="session")
def speech(dev):
    """Half a minute of two people on the telephone: (samples,) int16."""
    return dev["pyannote_sample"]
