"""Which lane runs a network: the one that was asked for, or the fastest that is right for the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

import torch
from torch import nn

from diar.errors import SetupError
from diar.lanes.exact import ExactLane
from diar.lanes.lane import Lane
from diar.lanes.shapes import input_shapes
from diar.network_files import Network, making_command, onnx_file
from diar.networks.campplus import HEAD_REACH
from diar.plans import Precision
from diar.profile import Profile

WISHES = (
    "auto",
    "exact",
    *("openvino", "openvino:fp32", "openvino:bf16"),
    *("tensorrt", "tensorrt:fp32", "tensorrt:fp16"),
)
_DEVICES = {"openvino": "cpu", "tensorrt": "cuda"}  # what the fast lanes run on
log = logging.getLogger(__name__)


def choose_lane(
    wish: str,
    network: Network,
    module: Callable[[], nn.Module] | None,
    profile: Profile,
    engines_dir: Path,
    device: torch.device,
    threads: int,
) -> Lane:
    """The lane for one network.

    wish: one of WISHES. ``auto`` takes OpenVINO on a CPU (BF16 where the processor has AMX and the profile
    carries ``bf16_accepted``) and TensorRT on a GPU (a plan that agrees with all that runs there, FP16 before
    FP32), and falls back to ``exact``, with one warning that says why, where that cannot load. module: makes
    the PyTorch network; None: there is only an ONNX file, which ``exact`` cannot run and ``auto`` cannot do
    without. Raises SetupError (E_LANE) for an unknown wish or one that this device or network cannot run,
    and whatever the lane asked for raises.
    """
    if wish not in WISHES:
        raise SetupError("E_LANE", f"got lane {wish!r}, expected one of {', '.join(WISHES)}")
    kind, _, precision = wish.partition(":")
    if kind == "exact":
        if module is None:
            what = f"the {network} network of profile {profile.name} is an ONNX file, lane exact runs PyTorch"
            raise SetupError("E_LANE", f"{what}; expected auto, openvino or tensorrt")
        return ExactLane(module(), device)
    if kind != "auto" and _DEVICES[kind] != device.type:
        raise SetupError("E_LANE", f"lane {wish!r} runs on {_DEVICES[kind]}, got device {device}")
    try:
        if device.type == "cpu":
            return _openvino(network, precision, profile, engines_dir, threads)
        return _tensorrt(network, precision, profile, engines_dir, device)
    except (SetupError, ImportError) as err:
        if wish != "auto" or module is None:
            raise
        log.warning("%s runs in the exact lane: %s", network, err)
        return ExactLane(module(), device)


def _openvino(network: Network, precision: str, profile: Profile, engines_dir: Path, threads: int) -> Lane:
    from diar.lanes.openvino import OpenVinoLane  # only where it is asked for: not in the GPU image

    onnx = onnx_file(profile, network, engines_dir)
    if not onnx.is_file():
        raise SetupError("E_ONNX", f"no file {onnx}; {making_command(profile, network)} makes it")
    best: Literal["bf16", "fp32"] = "bf16" if profile.bf16_accepted and has_amx() else "fp32"
    wanted = cast(Literal["bf16", "fp32"], precision) if precision else best
    if network == "segmentation":
        return OpenVinoLane(onnx, wanted, threads)
    return OpenVinoLane(onnx, wanted, threads, one_at_a_time=not profile.pure_step(1), reach=HEAD_REACH)


def _tensorrt(
    network: Network, precision: str, profile: Profile, engines_dir: Path, device: torch.device
) -> Lane:
    from diar.lanes.tensorrt import open_plan

    onnx = onnx_file(profile, network, engines_dir)
    wanted = cast(Precision, precision) if precision else None
    return open_plan(engines_dir, onnx, input_shapes(profile, network), profile.name, wanted, device)


def has_amx() -> bool:
    """Whether the processor multiplies BF16 tiles (Intel AMX)."""
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
