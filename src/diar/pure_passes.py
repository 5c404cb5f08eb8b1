"""Embeddings from one speaker's own frames, each in a pass of its own through the trunk: the second tier."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from diar.alignment import nearest_frames
from diar.fbank import num_fbank_frames
from diar.front_end import normalise
from diar.lanes.lane import Lane
from diar.networks.campplus import pool_statistics
from diar.profile import FBANK_STEP_SAMPLES
from diar.spans import Geometry

MIN_PURE_FRAMES = 20  # fbank frames (0.2 s): fewer give no pure embedding
PURE_FRAMES_STEP = 100  # pure passes are as long as a multiple of this: ten shapes for a lane to prepare


class PurePasses:
    """Runs them: ``trunk`` and ``head`` are the lanes of the embedding network, on ``device``."""

    def __init__(self, trunk: Lane, head: Lane, geometry: Geometry, device: torch.device) -> None:
        self._trunk, self._head = trunk, head
        self._hop = geometry.hop // FBANK_STEP_SAMPLES  # fbank frames
        window = num_fbank_frames(geometry.window)
        self._index = nearest_frames(geometry, window, FBANK_STEP_SAMPLES).to(device)

    def of_windows(self, features: Tensor, masks: Tensor, step: int, vectors: Tensor) -> Tensor:
        """Fill in the embeddings of each local speaker of every ``step``-th window.

        features: (frames, bins) of the span. masks: (window, local_speaker, frame) bool. vectors: (window,
        local_speaker, dim), returned; rows elsewhere and of fewer than MIN_PURE_FRAMES stay as they are.
        """
        own = masks[::step][:, :, self._index]  # (window / step, local_speaker, fbank frame of a window)
        order = own.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)  # own frames first
        started = {}
        for number, counts in enumerate(own.sum(dim=-1).tolist()):  # waits for the GPU, once
            first = number * step * self._hop
            for speaker, count in enumerate(counts):
                if count >= MIN_PURE_FRAMES:
                    stretch = features[first + order[number, speaker, :count]]
                    started[number * step, speaker] = self.start(stretch)
        for row, vector in started.items():
            vectors[row] = vector()
        return vectors

    def start(self, stretch: Tensor) -> Callable[[], Tensor]:
        """Begin one pass over frames of one speaker, (frames, bins); what is returned waits for (dim,)."""
        outputs = self._trunk.start(fill_up(normalise(stretch))[None])

        def vector() -> Tensor:
            trunk = outputs()
            return self._head.run(pool_statistics(trunk[0], trunk.new_ones(1, trunk.shape[2])))[0]

        return vector


def fill_up(features: Tensor) -> Tensor:
    """Repeat a speaker's frames from their start until their number is a multiple of PURE_FRAMES_STEP.

    features: (frames, bins), frames >= 1. Returns (frames rounded up, bins).
    """
    wanted = -(-len(features) // PURE_FRAMES_STEP) * PURE_FRAMES_STEP
    return features.repeat(-(-wanted // len(features)), 1)[:wanted]
