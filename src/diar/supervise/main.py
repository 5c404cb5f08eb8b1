"""``scripts/serve``: start tritonserver on a model repository, keep it serving, end it in order."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from diar.board import Board
from diar.errors import SetupError
from diar.supervise.arguments import grpc_tls, parse_arguments
from diar.supervise.binary import find_server
from diar.supervise.keeper import Keeper, Limits
from diar.supervise.launch import Addresses, Launch, server_environment
from diar.supervise.preflight import (
    check_files,
    check_ports,
    check_shared_memory,
    has_gpu,
    read_api_key,
)
from diar.supervise.process import SHARED_MEMORY, sweep_shared_memory
from diar.supervise.repository import read_models
from diar.supervise.run_folder import run_folder
from diar.supervise.status import Status, serve_status
from diar.supervise.watch import Patience
from diar.tools.add_gpus import prepare_repository

_EXIT_S = 3  # what tritonserver may take to end once no recording is left; after a lost stub it takes it all


class StopSignals:
    """Counts SIGINT and SIGTERM: the first asks for an end in order, the second for one at once."""

    def __init__(self) -> None:
        self.count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def serve(options: argparse.Namespace, folder: Path) -> None:
    """Run the server until a signal comes. Raises SetupError if it cannot start or be kept."""
    signals = StopSignals()
    launch = prepare(options, folder)
    addresses = launch.addresses
    status = Status((SHARED_MEMORY, addresses.memory_prefix))
    health = serve_status(status, addresses.host, addresses.health)
    keeper = Keeper(
        launch=launch,
        environment=server_environment(launch.files, os.environ),
        board=Board.create(folder / "board", log_json=options.log_json),
        status=status,
        limits=Limits(start_s=options.start_timeout, drain_s=options.exit_timeout),
        patience=Patience(
            probe_every_s=options.probe_interval,
            idle_s=options.hang_timeout,
            busy_s=options.busy_timeout,
            load_s=options.start_timeout,
        ),
        stops=lambda: signals.count,
        ready=lambda: announce(addresses),
    )
    try:
        keeper.run()
    finally:
        health.shutdown()
        health.server_close()


def prepare(options: argparse.Namespace, folder: Path) -> Launch:
    """Check everything that can be known before the start. Raises SetupError for what is wrong."""
    addresses = Addresses(
        options.address, options.http_port, options.grpc_port, options.metrics_port, options.health_port
    )
    device = "cpu" if options.replicas else "gpu" if options.gpus else options.device
    config_name = None if device == "gpu" or (not device and has_gpu()) else "cpu"
    repository = prepare_repository(
        options.model_repository.resolve(),
        options.gpus,
        options.replicas,
        options.profile,
        options.streams,
        options.lane,
    )
    models = read_models(repository, config_name)
    files = find_server()
    api_key = read_api_key(options.api_key_file) if options.api_key_file else None
    check_files(models, repository, cpu=config_name == "cpu")
    check_ports(addresses)
    sweep_shared_memory(addresses.memory_prefix)
    if warning := check_shared_memory(models, SHARED_MEMORY):
        print(f"warning: {warning}", file=sys.stderr)
    return Launch(
        files=files,
        backend_directory=files.backend_directory(folder),
        repository=repository,
        models=models,
        config_name=config_name,
        addresses=addresses,
        exit_timeout_s=_EXIT_S,
        admin_key=secrets.token_hex(16),
        api_key=api_key,
        grpc_tls=grpc_tls(options),
    )


def announce(addresses: Addresses) -> None:
    """Print where the server can be reached."""
    print(f"http     http://{addresses.host}:{addresses.http}")
    print(f"grpc     {addresses.host}:{addresses.grpc}")
    print(f"metrics  http://{addresses.host}:{addresses.metrics}/metrics")
    print(f"health   http://{addresses.host}:{addresses.health}/ready", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = parse_arguments(arguments)
    logging.basicConfig(format="%(asctime)s supervisor: %(message)s", stream=sys.stderr)
    try:
        with run_folder() as folder:
            serve(options, folder)
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"error: {err.strerror or err}: {err.filename or ''}".rstrip(": "), file=sys.stderr)
        return 1
    return 0
