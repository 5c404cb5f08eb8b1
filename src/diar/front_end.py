"""What the segmentation network is given: windows of a span's samples, or of its fbank."""

from __future__ import annotations

from torch import Tensor

from diar.fbank import SHIFT_SAMPLES, num_fbank_frames
from diar.profile import FbankInput
from diar.spans import Geometry


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
