"""What the networks are given: windows of a span's samples, or of its fbank; fbank without its mean."""

from __future__ import annotations

import math

from torch import Tensor

from diar.fbank import ENERGY_FLOOR, SHIFT_SAMPLES, num_fbank_frames
from diar.profile import FbankInput
from diar.spans import Geometry

SILENCE = math.log(ENERGY_FLOOR) + 1e-3  # log mel energy of digital silence, and a little


def waveform_windows(span: Tensor, geometry: Geometry) -> Tensor:
    """The windows of a span: (samples,) to (window, sample), a view."""
    return span.unfold(0, geometry.window, geometry.hop)


def fbank_windows(features: Tensor, geometry: Geometry, fbank: FbankInput) -> Tensor:
    """The windows of a span's fbank: (frames, bins) to (window, frame, bin).

    A frame needs 400 samples, so windows share frames, and the windows are views of one pass unless each has
    its mean taken off.
    """
    frames = num_fbank_frames(geometry.window)
    windows = features.unfold(0, frames, geometry.hop // SHIFT_SAMPLES).transpose(1, 2)
    return windows if fbank.mean == "kept" else windows - windows.mean(dim=1, keepdim=True)


def normalise(features: Tensor) -> Tensor:
    """Take the mean over frames off; frames of digital silence count nothing and become zeros.

    features: (frames, bins) log mel energies. Zero-padding and muted stretches would otherwise pull the
    mean of a short recording far from its speech.
    """
    sound = (features > SILENCE).any(dim=1, keepdim=True).to(features.dtype)
    mean = (features * sound).sum(dim=0) / sound.sum().clamp(min=1)
    return (features - mean) * sound
