"""The command line of ``scripts/serve``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

_PORTS = (("http", 8000), ("grpc", 8001), ("metrics", 8002), ("health", 8003))
_TLS = {  # option -> tritonserver's own, and what it is
    "tls-cert": ("grpc-server-cert", "certificate (PEM) to serve gRPC with TLS"),
    "tls-key": ("grpc-server-key", "its private key"),
    "tls-client-ca": ("grpc-root-cert", "authorities that clients' certificates must be signed by"),
}


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
    for protocol, port in _PORTS:
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
    add("--streams", type=int, metavar="N", help="live recordings at once (default: the repository's, 32)")
    add("--profile", help="name, or path of a .toml file (default: the repository's)")
    add("--lane", help="of both networks, for example openvino:bf16 (default: the repository's, auto)")
    add("--api-key-file", type=Path, metavar="FILE", help="inference only with the key in this file")
    for name, (_, text) in _TLS.items():
        add(f"--{name}", type=Path, metavar="FILE", help=text)
    add("--log-json", action="store_true", help="the line on each recording in the log as JSON")
    _add_limits(parser)
    options = parser.parse_args(arguments)
    if (options.gpus and options.device == "cpu") or (options.replicas and options.device == "gpu"):
        parser.error("--gpus serves on GPUs, --replicas on the CPU")
    if bool(options.tls_cert) != bool(options.tls_key) or (options.tls_client_ca and not options.tls_cert):
        parser.error("--tls-cert and --tls-key go together, --tls-client-ca needs both")
    return options


def grpc_tls(options: argparse.Namespace) -> dict[str, str]:
    """Options of tritonserver's own for TLS on gRPC; none without a certificate."""
    given = {name: getattr(options, name.replace("-", "_")) for name in _TLS}
    files = {_TLS[name][0]: str(file.resolve()) for name, file in given.items() if file}
    if not files:
        return {}
    return {**files, "grpc-use-ssl-mutual" if options.tls_client_ca else "grpc-use-ssl": "true"}


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Options in seconds."""
    for name, default, text in (
        ("start-timeout", 300.0, "how long loading may take"),
        ("exit-timeout", 30.0, "how long running recordings may take at the end"),
        ("probe-interval", 5.0, "pause between two probes of a model"),
        ("hang-timeout", 8.0, "a model at work that neither gets on nor uses the CPU for so long is stuck"),
        ("busy-timeout", 60.0, "the same for one that uses the CPU"),
    ):
        parser.add_argument(
            f"--{name}",
            type=float,
            default=default,
            metavar="SECONDS",
            help=f"{text} (default: %(default)g)",
        )
