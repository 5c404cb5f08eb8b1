"""The command line and the environment that tritonserver is started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diar.supervise.binary import ServerFiles
from diar.supervise.repository import Model

ADMIN_HEADER = "admin-key"
API_HEADER = "diar-api-key"
_RESTRICTED = "model-repository,shared-memory,trace,logging"  # for the holder of the admin key only
# From the first size on, and beyond the second in all, glibc gives memory back as soon as it is freed.
# Without them, and with Triton's usual pool of 8 requests, tritonserver went from 20 to 130 MB over 20
# recordings of 5 minutes, and one of an hour took 300 MB for ever; so it stays at about 50 MB. With 1 MiB a
# block of diar_nn had 26 000 page faults, 4 % of its time (docs/decisions/2026-11-30-speed.md).
_MMAP_THRESHOLD, _TRIM_THRESHOLD = str(4 << 20), str(16 << 20)
_ARENAS = "2"  # of glibc, for threads to share: with one each diar_nn takes 20 MB more, to no use
# Options of diarize_file as headers; never the key, which is a header of that kind as well
_OPTION_HEADERS = "(?i)diar-(num-speakers|min-speakers|max-speakers|file-id|timings)"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # an address to bind -> one to connect to


@dataclass(frozen=True)
class Addresses:
    """Where the server listens. health: the supervisor's own port."""

    host: str
    http: int
    grpc: int
    metrics: int
    health: int

    @property
    def ports(self) -> dict[str, int]:
        """Port by the name of its protocol."""
        return {"http": self.http, "grpc": self.grpc, "metrics": self.metrics, "health": self.health}

    @property
    def reachable_host(self) -> str:
        """A host that this machine can connect to, also when all interfaces are bound."""
        return _ANY.get(self.host, self.host)

    @property
    def memory_prefix(self) -> str:
        """How the names of this server's regions in /dev/shm begin."""
        return f"diar_{self.http}_"


@dataclass(frozen=True)
class Launch:
    """Everything that decides how tritonserver is started.

    exit_timeout_s: how long it may still take once nothing is left to do. api_key: None for inference without
    one. grpc_tls: tritonserver's own options for TLS, by name. They, as its HTTP port, know only of gRPC.
    """

    files: ServerFiles
    backend_directory: Path
    repository: Path
    models: Sequence[Model]
    config_name: str | None
    addresses: Addresses
    exit_timeout_s: int
    admin_key: str
    api_key: str | None = None
    grpc_tls: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """The command line. Model control is explicit, so that a model can be loaded again later."""
        at = self.addresses
        options = {
            "model-repository": str(self.repository),
            "backend-directory": str(self.backend_directory),
            "model-control-mode": "explicit",
            "http-address": at.host,
            "http-port": str(at.http),
            "http-header-forward-pattern": _OPTION_HEADERS,
            "grpc-address": at.host,
            "grpc-port": str(at.grpc),
            "grpc-infer-allocation-pool-size": "0",
            "metrics-address": at.host,
            "metrics-port": str(at.metrics),
            "exit-timeout-secs": str(self.exit_timeout_s),
            **self.grpc_tls,
        }
        if self.config_name:
            options["model-config-name"] = self.config_name
        memory = {
            "shm-region-prefix-name": at.memory_prefix,
            "shm-default-byte-size": max(model.number("shm_default_bytes") for model in self.models),
            "shm-growth-byte-size": max(model.number("shm_growth_bytes") for model in self.models),
        }
        return [
            str(self.files.tritonserver),
            "--disable-auto-complete-config",
            *(f"--{name}={value}" for name, value in options.items()),
            *self._restrictions(),
            *(f"--load-model={model.name}" for model in self.models),
            *(f"--backend-config=python,{name}={value}" for name, value in memory.items()),
        ]

    def _restrictions(self) -> list[str]:
        """What only the holders of a key may do, alike over HTTP and gRPC."""
        keys = {_RESTRICTED: f"{ADMIN_HEADER}={self.admin_key}"}
        if self.api_key is not None:
            keys["inference"] = f"{API_HEADER}={self.api_key}"
        return [
            f"--{option}={what}:{key}"
            for option in ("http-restricted-api", "grpc-restricted-protocol")
            for what, key in keys.items()
        ]


def server_environment(files: ServerFiles, base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with this Python first on PATH (the stub takes its packages) and the libraries."""
    return {
        **base,
        "MALLOC_ARENA_MAX": _ARENAS,
        "MALLOC_MMAP_THRESHOLD_": _MMAP_THRESHOLD,
        "MALLOC_TRIM_THRESHOLD_": _TRIM_THRESHOLD,
        "PATH": _joined([str(Path(sys.executable).parent)], base.get("PATH")),
        "LD_LIBRARY_PATH": _joined([str(folder) for folder in files.libraries], base.get("LD_LIBRARY_PATH")),
    }


def _joined(folders: list[str], inherited: str | None) -> str:
    return os.pathsep.join([*folders, *([inherited] if inherited else [])])
