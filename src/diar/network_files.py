"""Which ONNX file holds each network of a profile, and whether there is a PyTorch network as well.

Paths are relative to ``engines/build``. This module imports no torch: the supervisor uses it, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from diar.profile import Profile

Network = Literal["segmentation", "trunk"]

_EXPORTED = {"pyannet": "pyannet.onnx", "campplus": "campplus_trunk.onnx"}


def installed_file(profile: Profile, engines_dir: Path) -> Path:
    """Where ``check_network`` installs a segmentation network that is brought along."""
    return engines_dir / "onnx" / f"{profile.name}_segmentation.onnx"


def reference_file(profile: Profile, engines_dir: Path) -> Path:
    """Where ``export_onnx`` writes a profile's untrained reference network."""
    return engines_dir / "onnx" / f"{profile.name}_reference.onnx"


def onnx_file(profile: Profile, network: Network, engines_dir: Path) -> Path:
    """The ONNX file of a network; of a reference network the one that was installed in its place, if any."""
    kind = profile.segmentation.network if network == "segmentation" else profile.embedding.network
    if kind == "onnx" or (kind == "reference" and is_installed(profile, engines_dir)):
        return installed_file(profile, engines_dir)
    if kind == "reference":
        return reference_file(profile, engines_dir)
    return engines_dir / "onnx" / _EXPORTED[kind]


def is_installed(profile: Profile, engines_dir: Path) -> bool:
    """Whether a segmentation network was brought along; only profiles that take one are looked at."""
    return profile.segmentation.network != "pyannet" and installed_file(profile, engines_dir).is_file()


def has_module(profile: Profile, engines_dir: Path) -> bool:
    """Whether the segmentation network exists in PyTorch, so that the exact lane can run it."""
    kind = profile.segmentation.network
    return kind == "pyannet" or (kind == "reference" and not is_installed(profile, engines_dir))


def making_command(profile: Profile, network: Network) -> str:
    """What a person types to get the ONNX file of a network."""
    if network == "segmentation" and profile.segmentation.network == "onnx":
        return f"scripts/check_network MODEL.onnx --profile {profile.name}"
    return f"scripts/export_onnx --profile {profile.name}"
