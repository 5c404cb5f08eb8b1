"""The committed repository, served in other ways than by scripts/serve in the checkout."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from time import monotonic, sleep

import pytest
from live import ROOT, START_LIMIT_S, Served, free_ports

from diar.supervise.binary import find_server
from diar.supervise.launch import server_environment
from diar.supervise.readiness import is_ready


@pytest.fixture
def plain_server(tmp_path):
    """tritonserver --model-repository, no more: no model control, and configuration auto-completed."""
    files, ports, log = find_server(), free_ports(), tmp_path / "plain.log"
    options = {
        "model-repository": ROOT / "model_repository",
        "model-config-name": "cpu",
        "backend-directory": files.backend_directory(tmp_path),
        "http-port": ports[0],
        "grpc-port": ports[1],
        "metrics-port": ports[2],
        "backend-config": f"python,shm-region-prefix-name=diar_{ports[0]}_",
    }
    with log.open("w") as file:
        process = subprocess.Popen(
            [files.tritonserver, *(f"--{name}={value}" for name, value in options.items())],
            env=server_environment(files, os.environ),
            cwd="/",
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    deadline = monotonic() + START_LIMIT_S
    while not is_ready("127.0.0.1", ports[0]):
        assert process.poll() is None, log.read_text()[-4000:]
        assert monotonic() < deadline, log.read_text()[-4000:]
        sleep(0.1)
    served = Served(process, ports, log, [])
    yield served
    served.stop()
    assert served.regions() == []


def test_repository_loads_with_a_plain_tritonserver(plain_server, grpc, connect, speech):
    short = speech[: 12 * 16_000]
    assert connect("grpc", plain_server).diarize(short) == grpc.diarize(short)


@pytest.fixture
def elsewhere(tmp_path):
    """A virtual environment with the package built and installed, and the repository, far from the checkout.

    Other packages are those of the running environment.
    """
    environment = tmp_path / "venv"
    venv.create(environment)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    source = shutil.copytree(
        ROOT,
        tmp_path / "source",
        ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests"),
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", packages, source], check=True, timeout=START_LIMIT_S)
    shutil.rmtree(source)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.copytree(ROOT / "model_repository", tmp_path / "srv" / "model_repository")
    (tmp_path / "srv" / "engines").mkdir()
    (tmp_path / "srv" / "engines" / "build").symlink_to(ROOT / "engines" / "build")
    return environment, tmp_path / "srv" / "model_repository"


def test_installed_package_serves_the_same_far_from_the_checkout(elsewhere, serve, grpc, connect, speech):
    environment, repository = elsewhere
    where = [environment / "bin" / "python", "-c", "import diar, sys; print(diar.__file__)"]
    assert subprocess.check_output(where, text=True, cwd="/").startswith(str(environment))
    page = "from diar_client.report.page import asset; print(len(asset('page.html')))"
    assert (
        int(subprocess.check_output([environment / "bin" / "python", "-c", page], text=True, cwd="/")) > 1000
    )
    served = serve("--model-repository", repository, python_folder=environment)
    short = speech[: 12 * 16_000]
    assert connect("grpc", served).diarize(short) == grpc.diarize(short)
    assert served.stop(signal.SIGTERM) == 0
