"""An untrained segmentation network for tests and timing: a small Conformer with fixed random weights.

It meets the contract of profiles with an fbank front end and says nothing about who speaks. Architecture
after A. Gulati et al., "Conformer: Convolution-augmented Transformer for speech recognition" (Interspeech
2020), with two fbank frames for each of its own, relative positions left to the convolutions, and layer norm
where the paper has batch norm.
"""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

NUM_BINS = 80
_SEED = 16


class FeedForward(nn.Module):
    """Layer norm, a layer of four times the size, Swish, a layer back."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.inner = nn.Linear(size, 4 * size)
        self.outer = nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, frames, size) to the same."""
        return cast(Tensor, self.outer(F.silu(self.inner(self.norm(x)))))


class SelfAttention(nn.Module):
    """Layer norm and attention of every frame to all frames of its window."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size)
        self.project = nn.Linear(size, 3 * size)
        self.outer = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, frames, size) to the same."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (n, head, frame, channel)
            for part in self.project(self.norm(x)).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        heard = scores.softmax(dim=-1) @ value
        return cast(Tensor, self.outer(heard.transpose(1, 2).flatten(2)))


class Convolution(nn.Module):
    """Layer norm, a gated layer, a convolution of each channel by itself, Swish, a layer."""

    def __init__(self, size: int, kernel_size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.gated = nn.Linear(size, 2 * size)
        self.depthwise = nn.Conv1d(size, size, kernel_size, padding=kernel_size // 2, groups=size)
        self.inner_norm = nn.LayerNorm(size)
        self.outer = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, frames, size) to the same."""
        values, gate = self.gated(self.norm(x)).chunk(2, dim=-1)
        local = self.depthwise((values * gate.sigmoid()).transpose(1, 2)).transpose(1, 2)
        return cast(Tensor, self.outer(F.silu(self.inner_norm(local))))


class ConformerLayer(nn.Module):
    """Half a feed-forward layer, attention, convolution, the other half, layer norm."""

    def __init__(self, size: int, heads: int, kernel_size: int) -> None:
        super().__init__()
        self.before = FeedForward(size)
        self.attention = SelfAttention(size, heads)
        self.convolution = Convolution(size, kernel_size)
        self.after = FeedForward(size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, frames, size) to the same."""
        x = x + 0.5 * self.before(x)
        x = x + self.attention(x)
        x = x + self.convolution(x)
        return cast(Tensor, self.norm(x + 0.5 * self.after(x)))


class ReferenceConformer(nn.Module):
    """Fbank windows (n, frames, 80) to log-probabilities (n, frames / 2, classes), float32. Untrained."""

    def __init__(
        self, num_classes: int, *, size: int = 96, heads: int = 4, layers: int = 2, kernel_size: int = 15
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(NUM_BINS)
        self.subsample = nn.Conv1d(NUM_BINS, size, 2, stride=2)
        self.layers = nn.Sequential(*(ConformerLayer(size, heads, kernel_size) for _ in range(layers)))
        self.classifier = nn.Linear(size, num_classes)

    def forward(self, fbank: Tensor) -> Tensor:
        """(n, frames, 80) to (n, frames // 2, classes) log-probabilities of the powerset classes."""
        features = self.subsample(self.norm(fbank).transpose(1, 2)).transpose(1, 2)
        features = self.layers(features)
        features = features - features.mean(dim=1, keepdim=True)  # or it would hear one class throughout
        return F.log_softmax(self.classifier(features), dim=-1)


def reference_network(num_classes: int) -> ReferenceConformer:
    """The network with its fixed weights, the same on every machine, in evaluation mode."""
    network = ReferenceConformer(num_classes).eval().requires_grad_(False)
    random = np.random.RandomState(_SEED)  # its numbers are promised never to change
    for name, values in network.state_dict().items():
        if name.endswith("weight") and values.ndim > 1:  # norms keep their ones, biases become zeros
            fan_in = values[0].numel()
            drawn = random.standard_normal(tuple(values.shape)) / fan_in**0.5
            values.copy_(torch.from_numpy(drawn.astype(np.float32)))
        elif name.endswith("bias"):
            values.zero_()
    return network


def fingerprint(network: nn.Module) -> str:
    """Hex digest of a network's weights."""
    digest = hashlib.sha256()
    for name, values in network.state_dict().items():
        digest.update(name.encode() + values.numpy().tobytes())
    return digest.hexdigest()
