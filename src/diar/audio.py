"""Checks on samples before anything is computed from them."""

from __future__ import annotations

import numpy as np

from diar.errors import InvalidAudio
from diar.spans import Samples

MAX_PEAK = 8.0  # samples are meant to lie in [-1, 1]; beyond this the scale itself is wrong


def check_samples(samples: Samples, *, what: str = "AUDIO") -> None:
    """Raise InvalidAudio unless ``samples`` is a non-empty vector of float32 or int16, finite and in scale.

    samples: (samples,) float32 in [-1, 1] (resampling overshoot is fine), or int16.
    """
    if samples.ndim != 1:
        raise InvalidAudio("E_AUDIO_SHAPE", f"{what}: got shape {samples.shape}, expected (samples,)")
    if samples.dtype not in (np.float32, np.int16):
        raise InvalidAudio("E_AUDIO_DTYPE", f"{what}: got {samples.dtype}, expected float32 or int16")
    if len(samples) == 0:
        raise InvalidAudio("E_AUDIO_EMPTY", f"{what}: got 0 samples, expected at least 1")
    if samples.dtype == np.int16:
        return
    peak = max(float(samples.max()), -float(samples.min()))  # NaN and infinity survive both
    if not np.isfinite(peak):
        raise InvalidAudio("E_AUDIO_NONFINITE", f"{what}: got NaN or infinity, expected finite samples")
    if peak > MAX_PEAK:
        raise InvalidAudio(
            "E_AUDIO_RANGE",
            f"{what}: got a peak of {peak:.6g}, expected samples in [-1, 1] (at most {MAX_PEAK})",
        )
