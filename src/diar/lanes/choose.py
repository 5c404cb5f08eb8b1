"""Which lane runs a network: the one that was asked for, or the fastest that is right for the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn

from diar.errors import SetupError
from diar.lanes.exact import ExactLane
from diar.lanes.lane import Lane
from diar.profile import Profile

Network = Literal["segmentation", "trunk"]
LaneWish = Literal["auto", "exact", "openvino", "openvino:fp32", "openvino:bf16"]
log = logging.getLogger(__name__)


def onnx_file(profile: Profile, network: Network, engines_dir: Path) -> Path:
    """The exported ONNX file of a network."""
    name = profile.segmentation.network if network == "segmentation" else profile.embedding.network
    return engines_dir / "onnx" / {"pyannet": "segmentation.onnx", "campplus": "campplus_trunk.onnx"}[name]


def choose_lane(
    wish: str,
    network: Network,
    module: Callable[[], nn.Module],
    profile: Profile,
    engines_dir: Path,
    device: torch.device,
    threads: int,
) -> Lane:
    """The lane for one network.

    wish: a LaneWish. ``auto`` takes OpenVINO on a CPU (BF16 where the processor has AMX and the profile
    carries ``bf16_accepted``), and falls back to ``exact`` with one warning where that cannot load. module:
    makes the PyTorch network. Raises SetupError (E_LANE) for an unknown wish or one that this device cannot
    run, and whatever the lane asked for raises.
    """
    if wish not in get_args(LaneWish):
        raise SetupError("E_LANE", f"got lane {wish!r}, expected one of {', '.join(get_args(LaneWish))}")
    if wish == "exact" or (wish == "auto" and device.type != "cpu"):
        return ExactLane(module(), device)
    if device.type != "cpu":
        raise SetupError("E_LANE", f"lane {wish!r} runs on CPUs, got device {device}")
    try:
        from diar.lanes.openvino import OpenVinoLane  # only where it is asked for: not in the GPU image

        precision = wish.partition(":")[2] or _best_precision(profile)
        return OpenVinoLane(
            onnx_file(profile, network, engines_dir), "bf16" if precision == "bf16" else "fp32", threads
        )
    except (SetupError, ImportError) as err:
        if wish != "auto":
            raise
        log.warning("%s runs in the exact lane: %s", network, err)
        return ExactLane(module(), device)


def _best_precision(profile: Profile) -> str:
    return "bf16" if profile.bf16_accepted and has_amx() else "fp32"


def has_amx() -> bool:
    """Whether the processor multiplies BF16 tiles (Intel AMX)."""
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
