"""What can be known to be wrong before tritonserver is started; each fault is one clear line."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from diar.artifacts import file_sha256
from diar.errors import SetupError
from diar.network_files import Network, making_command, onnx_file
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.supervise.launch import Addresses
from diar.supervise.repository import Model

PCM_BYTES = 2  # of one sample as clients send it
_MIB = 1 << 20
_NETWORKS: tuple[Network, ...] = get_args(Network)


def has_gpu() -> bool:
    """Whether this machine shows an NVIDIA GPU."""
    if Path("/dev/nvidia0").exists():
        return True
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and listed.stdout.startswith("GPU ")


def check_ports(addresses: Addresses) -> None:
    """Raise SetupError (E_PORT) for the first port that cannot be listened on."""
    for protocol, port in addresses.ports.items():
        family = socket.AF_INET6 if ":" in addresses.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left is free
            try:
                probe.bind((addresses.host, port))
                probe.listen()
            except OSError as err:
                what = f"cannot listen on {addresses.host} port {port}: {err.strerror or err}"
                raise SetupError("E_PORT", f"{what}; choose another with --{protocol}-port") from None


def check_files(models: Sequence[Model], repository: Path, *, cpu: bool) -> None:
    """Raise SetupError unless the profiles are known and their weights and ONNX files in place.

    E_PROFILE, E_WEIGHTS (missing or altered), E_ONNX (missing; needed on CPUs by all lanes but ``exact``).
    """
    for model in models:
        if "profile" not in model.parameters:
            continue
        profile = load_profile(model.parameters["profile"])
        if "engines_dir" in model.parameters:
            engines = (repository / model.parameters["engines_dir"]).resolve()
            _check_weights(profile, engines / "weights")
            lanes = {model.parameters.get(f"{network}_lane") for network in ("segmentation", "embedding")}
            if cpu and lanes != {"exact"}:
                _check_onnx(profile, engines)


def _check_weights(profile: Profile, folder: Path) -> None:
    for weights in profile.weights:
        file = folder / weights.file
        if not file.is_file():
            raise SetupError("E_WEIGHTS", f"no weights at {file}; run scripts/fetch_weights")
        if file_sha256(file) != weights.sha256:
            raise SetupError(
                "E_WEIGHTS", f"{file} is not what profile {profile.name} names; run scripts/fetch_weights"
            )


def _check_onnx(profile: Profile, engines: Path) -> None:
    for network in _NETWORKS:
        file = onnx_file(profile, network, engines)
        if not file.is_file():
            raise SetupError("E_ONNX", f"no ONNX file at {file}; run {making_command(profile, network)}")


def needed_shared_memory(models: Sequence[Model]) -> int:
    """Bytes of /dev/shm that these models can come to use.

    Every instance starts with the default size; each one that takes whole recordings grows by the longest
    one allowed, as PCM, and one growth step. Regions never shrink.
    """
    default = max(model.number("shm_default_bytes") for model in models)
    growth = max(model.number("shm_growth_bytes") for model in models)
    recordings = [
        model.instances * (model.number("max_recording_s") * SAMPLE_RATE * PCM_BYTES + growth)
        for model in models
        if "max_recording_s" in model.parameters
    ]
    return default * sum(model.instances for model in models) + sum(recordings)


def check_shared_memory(models: Sequence[Model], folder: Path) -> None:
    """Raise SetupError (E_SHM), naming the size that is needed, if ``folder`` has too little room."""
    needed, free = needed_shared_memory(models), shutil.disk_usage(folder).free
    if free < needed:
        need_mib = -(-needed // _MIB)
        raise SetupError(
            "E_SHM",
            f"{folder} has {free // _MIB} MiB free, the longest recordings need {need_mib} MiB;"
            f" with Docker: --shm-size={need_mib}m",
        )
