"""``scripts/serve``: start tritonserver on a model repository, keep it company, end it in order."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from diar.errors import SetupError
from diar.supervise.binary import find_server
from diar.supervise.launch import Addresses, Launch, server_environment
from diar.supervise.preflight import check_files, check_ports, check_shared_memory, has_gpu
from diar.supervise.process import SHARED_MEMORY, TritonServer, sweep_shared_memory
from diar.supervise.readiness import wait_until_ready
from diar.supervise.repository import read_models
from diar.tools.add_gpus import prepare_repository

_POLL_S = 0.2
_STOP_MARGIN_S = 5.0  # what ending takes on top of the exit timeout


class StopSignals:
    """Counts SIGINT and SIGTERM: the first asks for an end in order, the second for one at once."""

    def __init__(self) -> None:
        self.count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def serve(options: argparse.Namespace, run_folder: Path) -> None:
    """Run the server until a signal comes. Raises SetupError if it cannot start or ends by itself."""
    signals = StopSignals()
    addresses = Addresses(options.address, options.http_port, options.grpc_port, options.metrics_port)
    device = "cpu" if options.replicas else "gpu" if options.gpus else options.device
    config_name = None if device == "gpu" or (not device and has_gpu()) else "cpu"
    repository = prepare_repository(
        options.model_repository.resolve(), options.gpus, options.replicas, options.profile
    )
    models = read_models(repository, config_name)
    files = find_server()
    check_files(models, repository, cpu=config_name == "cpu")
    check_ports(addresses)
    sweep_shared_memory(addresses.memory_prefix)
    check_shared_memory(models, SHARED_MEMORY)
    launch = Launch(
        files=files,
        backend_directory=files.backend_directory(run_folder),
        repository=repository,
        models=models,
        config_name=config_name,
        addresses=addresses,
        exit_timeout_s=options.exit_timeout,
        admin_key=secrets.token_hex(16),
    )
    server = TritonServer(
        launch.command(), server_environment(files, os.environ), addresses.memory_prefix, sys.stderr
    )
    try:
        if wait_until_ready(
            server, addresses.reachable_host, addresses.http, options.start_timeout, lambda: signals.count > 0
        ):
            announce(addresses)
        watch(server, signals)
    finally:
        server.stop(options.exit_timeout + _STOP_MARGIN_S, at_once=lambda: signals.count > 1)


def announce(addresses: Addresses) -> None:
    """Print where the server can be reached."""
    print(f"http     http://{addresses.host}:{addresses.http}")
    print(f"grpc     {addresses.host}:{addresses.grpc}")
    print(f"metrics  http://{addresses.host}:{addresses.metrics}/metrics", flush=True)


def watch(server: TritonServer, signals: StopSignals) -> None:
    """Return at the first signal. Raises SetupError (E_SERVER) if the server ends before that."""
    while not signals.count:
        if server.exit_code is not None:
            raise SetupError("E_SERVER", f"tritonserver ended by itself, exit code {server.exit_code}")
        time.sleep(_POLL_S)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="serve", description="Start the diarization server and run it until Ctrl-C or SIGTERM."
    )
    add = parser.add_argument
    add(
        "--model-repository", type=Path, default=Path("model_repository"), metavar="DIR", help="what to serve"
    )
    add(
        "--address",
        default="127.0.0.1",
        help="interface to listen on, 0.0.0.0 for all (default: %(default)s)",
    )
    for protocol, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        add(f"--{protocol}-port", type=int, default=port, metavar="PORT", help="default: %(default)s")
    device = parser.add_mutually_exclusive_group()
    device.add_argument("--cpu", dest="device", action="store_const", const="cpu", help="use no GPU")
    device.add_argument(
        "--gpu",
        dest="device",
        action="store_const",
        const="gpu",
        help="use the GPU (default: if there is one)",
    )
    count = parser.add_mutually_exclusive_group()
    count.add_argument("--gpus", metavar="N", help="serve on N GPUs, or auto: on all (default: 1)")
    count.add_argument(
        "--replicas",
        type=int,
        metavar="R",
        help="serve with R processes for the networks, which share the CPU",
    )
    add("--profile", help="name, or path of a .toml file (default: the repository's)")
    add(
        "--start-timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long loading may take (default: %(default)g)",
    )
    add(
        "--exit-timeout",
        type=int,
        default=30,
        metavar="SECONDS",
        help="how long running requests may take at the end (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if (options.gpus and options.device == "cpu") or (options.replicas and options.device == "gpu"):
        parser.error("--gpus serves on GPUs, --replicas on the CPU")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = parse_arguments(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="diar_") as run_folder:
            serve(options, Path(run_folder))
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    return 0
