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

_MAX_STREAMS, _MAX_FILE = "max_streams", "max_file_bytes"
PCM_BYTES = 2  # of one sample as clients send it
SHORT_S = 300  # a server that cannot take recordings of five minutes is of no use
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


def read_api_key(file: Path) -> str:
    """The key in a file. Raises SetupError (E_SETUP_KEY) unless it is one word of printable ASCII."""
    try:
        key = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise SetupError("E_SETUP_KEY", f"{file}: cannot read the API key: {err}") from None
    if not key or not key.isprintable() or " " in key:
        raise SetupError("E_SETUP_KEY", f"{file}: expected one word of printable ASCII characters")
    return key


def shared_memory(models: Sequence[Model], recording_s: int) -> int:
    """Bytes of /dev/shm that these models come to use if every instance gets recordings of ``recording_s``.

    Every instance starts with the default size; one that takes whole recordings grows by the largest request,
    half of that again for pieces that do not fit, and a step. AUDIO takes twice as much as PCM. Regions never
    shrink.
    """
    default = max(model.number("shm_default_bytes") for model in models)
    growth = max(model.number("shm_growth_bytes") for model in models)
    requests = [
        model.instances * (_request_bytes(model, recording_s) * 3 // 2 + growth)
        for model in models
        if _takes_recordings(model) or _MAX_STREAMS in model.parameters
    ]
    return default * sum(model.instances for model in models) + sum(requests)


def _request_bytes(model: Model, recording_s: int) -> int:
    """What a model has of its callers at once: a recording as PCM, an encoded file, or a piece a stream."""
    if _MAX_STREAMS in model.parameters:
        piece_s = min(recording_s, model.number("max_chunk_s"))
        return model.number(_MAX_STREAMS) * piece_s * SAMPLE_RATE * PCM_BYTES
    pcm = min(recording_s, model.number("max_recording_s")) * SAMPLE_RATE * PCM_BYTES
    return min(pcm, model.number(_MAX_FILE)) if _MAX_FILE in model.parameters else pcm


def check_shared_memory(models: Sequence[Model], folder: Path) -> str:
    """Compare the room in ``folder`` with what the models may need: a warning if it is not enough, or "".

    Raises SetupError (E_SHM), naming the size that is needed, if it does not even hold a recording of
    SHORT_S in every instance.
    """
    longest_s = max(
        (model.number("max_recording_s") for model in models if _takes_recordings(model)), default=0
    )
    least, most = shared_memory(models, SHORT_S), shared_memory(models, longest_s)
    free = shutil.disk_usage(folder).free
    sizes = (
        f"{folder} has {free // _MIB} MiB free; {_mib(least)} MiB are needed to start, {_mib(most)} MiB for"
        f" recordings of {longest_s / 3600:g} h in all instances; with Docker: --shm-size={_mib(most)}m"
    )
    if free < least:
        raise SetupError("E_SHM", sizes)
    return sizes if free < most else ""


def _takes_recordings(model: Model) -> bool:
    return "max_recording_s" in model.parameters


def _mib(number: int) -> int:
    return -(-number // _MIB)
