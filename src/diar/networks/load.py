"""The PyTorch network that a profile's segmentation is run with, if there is one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from torch import nn

from diar.network_files import has_module
from diar.networks.reference import reference_network
from diar.networks.segmentation import load_segmentation
from diar.profile import Profile

log = logging.getLogger(__name__)


def segmentation_module(profile: Profile, engines_dir: Path) -> Callable[[], nn.Module] | None:
    """What makes the network of a profile; None if it is an ONNX file that was brought along.

    engines_dir: holds ``weights``. What it returns raises SetupError (E_WEIGHTS). The untrained reference
    network is not chosen without a warning.
    """
    if not has_module(profile, engines_dir):
        return None
    weights = profile.segmentation.weights
    if weights is None:
        log.warning(
            "profile %s runs an untrained reference network: its turns mean nothing;"
            " install a network with scripts/check_network MODEL.onnx --profile %s",
            profile.name,
            profile.name,
        )
        return lambda: reference_network(profile.geometry.num_classes)
    return lambda: load_segmentation(engines_dir / "weights" / weights.file, weights.sha256)
