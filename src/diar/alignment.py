"""Which segmentation frame lies under a frame of fbank or of the trunk."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from diar.fbank import num_fbank_frames
from diar.profile import FBANK_FIELD_SAMPLES
from diar.spans import Geometry


def trunk_frames_per_window(geometry: Geometry) -> int:
    """Trunk frames whose fbank frames lie wholly inside one window."""
    return num_fbank_frames(geometry.window) // 2


@lru_cache
def nearest_frames(geometry: Geometry, count: int, step: int) -> Tensor:
    """Segmentation frame nearest to each of ``count`` frames that lie every ``step`` samples: (count,).

    The centre of such a frame is half an fbank frame behind its start.
    """
    centres = torch.arange(count) * step + FBANK_FIELD_SAMPLES // 2
    frames = (centres - geometry.frame_field // 2 + geometry.frame_step // 2) // geometry.frame_step
    return frames.clamp(0, geometry.frames - 1)
