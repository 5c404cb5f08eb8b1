"""Networks whose answers a test writes down: which frames of which window each local speaker has."""

import numpy as np
import torch
from torch import nn

from diar.lanes.lane import Lane
from diar.networks.campplus import TRUNK_CHANNELS, trunk_frames
from diar.powerset import powerset_classes

CLASS = {members: klass for klass, members in enumerate(powerset_classes(3, 2))}
DIM = 192


class ScriptedSegmentation(Lane):
    """Answers window i with row i of ``classes``; what it answers can be spoilt."""

    name = "scripted:segmentation"

    def __init__(self):
        self.classes = np.zeros((32, 589), int)
        self.spoil = 0.0

    def run(self, windows):
        logits = torch.full((len(windows), 589, 7), -9.0)
        classes = torch.from_numpy(self.classes[: len(windows)])
        return logits.scatter(2, classes[..., None], -0.1) + self.spoil

    def close(self):
        self.name = "closed"


class CountingTrunk(Lane):
    """Channel 0 of trunk frame i is i + 1; keeps what it was given."""

    name = "scripted:trunk"

    def __init__(self):
        self.inputs = []
        self.spoil = 0.0

    def run(self, features):
        self.inputs.append(features[0].clone())
        trunk = torch.zeros(1, TRUNK_CHANNELS, trunk_frames(features.shape[1]))
        trunk[0, 0] = torch.arange(trunk.shape[2]) + 1.0
        return trunk + self.spoil

    def close(self):
        self.name = "closed"


class FirstStatistics(nn.Module):
    """An embedding is the first ``dim`` means, and 5 added to all of them, as a bias would."""

    def __init__(self, dim=DIM):
        super().__init__()
        self.linear = nn.Linear(2 * TRUNK_CHANNELS, dim)

    def forward(self, statistics):
        return statistics[:, : self.linear.out_features] + 5.0


class Networks:
    def __init__(self):
        self.segmentation, self.trunk, self.head = ScriptedSegmentation(), CountingTrunk(), FirstStatistics()

    def choose(self, wish, network, *_):
        return self.segmentation if network == "segmentation" else self.trunk


def noise(geometry, num_windows):
    return (np.random.default_rng(3).normal(size=geometry.span_samples(num_windows)) * 0.1).astype(np.float32)


def frames_of(classes, members):
    """Frames of one window in which just these local speakers are active."""
    return set(np.flatnonzero(classes == CLASS[members]).tolist())


def scripted_classes(geometry):
    """Of two windows: speaker 1 from frame 100 to 300, at times with 2; others alone in the second one."""
    classes = np.zeros((2, geometry.frames), int)
    classes[:, 100:200] = classes[:, 250:300] = CLASS[(1,)]
    classes[:, 200:250] = CLASS[(1, 2)]
    classes[1, 400:500] = CLASS[(0,)]
    classes[1, 250:300] = CLASS[(2,)]
    return classes
