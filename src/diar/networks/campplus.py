"""CAM++: the speaker embedding network, cut where its statistics are pooled.

Architecture after H. Wang et al., "CAM++: A fast and efficient network for speaker verification using
context-aware masking" (Interspeech 2023). The trunk turns the fbank of a stretch of speech into one vector
per frame; any number of masks over these frames can then be pooled and passed through the head.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from diar.networks.checkpoint import load_strictly, read_checkpoint

TRUNK_CHANNELS = 512  # of the trunk in its default sizes, which are those of the checkpoint
HEAD_REACH = 10  # fbank frames to either side that its convolutional head looks at: ten kernels of 3
_TRUNK_STRIDE = 2  # fbank frames per trunk frame
_SEGMENT_FRAMES = 100  # trunk frames that share one local context
_HEAD_PREFIX = "xvector.dense."


def trunk_frames(num_fbank_frames: int) -> int:
    """Frames that the trunk makes of ``num_fbank_frames``; frame i is centred on fbank frame 2 i.

    >>> trunk_frames(998), trunk_frames(999)
    (499, 500)
    """
    return (num_fbank_frames - 1) // _TRUNK_STRIDE + 1


def centred_moments(trunk: Tensor) -> tuple[Tensor, Tensor]:
    """What statistics pooling needs of the trunk's frames, whatever the masks.

    trunk: (..., channels, frames). Returns its mean over all frames, (..., 1, channels), and (..., frames, 2
    channels): each frame less that mean, then the squares. Centred, the difference of the second moment and
    the squared mean cancels little in float32.
    """
    centre = trunk.mean(dim=-1, keepdim=True)
    frames = (trunk - centre).transpose(-1, -2)
    return centre.transpose(-1, -2), torch.cat([frames, frames.square()], dim=-1)


def pool_moments(centre: Tensor, moments: Tensor, masks: Tensor) -> Tensor:
    """Mean and unbiased standard deviation of the trunk's frames under every mask.

    centre, moments: of ``centred_moments``, or windows of them. masks: (..., m, frames) float32 weights >= 0.
    Returns (..., m, 2 channels) float32: means, then deviations; zeros where all weights are zero. One frame
    alone has deviation 0. Fractional weights count as reliabilities: the variance is divided by
    sum(w) - sum(w^2) / sum(w), which is n - 1 for zeros and ones.

    One matrix product, no branch on values.
    """
    total = masks.sum(dim=-1, keepdim=True)
    share = masks / total.clamp(min=torch.finfo(masks.dtype).tiny)
    offset, second = (share @ moments).chunk(2, dim=-1)
    spread = (second - offset.square()).clamp(min=0.0)
    freedom = 1.0 - share.square().sum(dim=-1, keepdim=True)  # (n - 1) / n for zeros and ones
    least = torch.finfo(masks.dtype).eps
    deviation = (spread / freedom.clamp(min=least)).sqrt() * (freedom > least)
    return torch.cat([centre + offset, deviation], dim=-1) * (total > 0)


def pool_statistics(trunk: Tensor, masks: Tensor) -> Tensor:
    """``pool_moments`` of a trunk's output, (..., channels, frames), under masks (..., m, frames)."""
    return pool_moments(*centred_moments(trunk), masks)


def _norm_relu(channels: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(batchnorm=nn.BatchNorm1d(channels), relu=nn.ReLU()))


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions over (bins, frames); the first may halve the bins."""

    def __init__(self, channels: int, bin_stride: int) -> None:
        super().__init__()
        stride = (bin_stride, 1)
        self.conv1 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if bin_stride != 1:
            self.shortcut.append(nn.Conv2d(channels, channels, 1, stride=stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, bins, frames) to the same with ``bins / bin_stride``."""
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ConvolutionalHead(nn.Module):
    """The two-dimensional front of the trunk (FCM): an eighth of the bins, all frames."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.layer1 = nn.Sequential(ResidualBlock(channels, 2), ResidualBlock(channels, 1))
        self.layer2 = nn.Sequential(ResidualBlock(channels, 2), ResidualBlock(channels, 1))
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=(2, 1), padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, bins: Tensor) -> Tensor:
        """(b, bins, frames) to (b, channels * bins / 8, frames)."""
        y = torch.relu(self.bn1(self.conv1(bins.unsqueeze(1))))
        y = self.layer2(self.layer1(y))
        return torch.relu(self.bn2(self.conv2(y))).flatten(1, 2)


class Segments(NamedTuple):
    """How trunk frames fall into segments of 100 frames, the last of what is left; equal for all layers.

    members: (frames, segments) 1 where the frame belongs to the segment. sizes: (segments,) frames in each.
    """

    members: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, x: Tensor) -> Segments:
        """Segments of the last axis of ``x``, with its dtype and device."""
        num_frames = x.shape[-1]
        frames = torch.arange(num_frames, device=x.device)
        starts = torch.arange(0, num_frames, _SEGMENT_FRAMES, device=x.device)
        offsets = frames.unsqueeze(1) - starts
        members = ((offsets >= 0) & (offsets < _SEGMENT_FRAMES)).to(x.dtype)
        return cls(members, members.sum(dim=0))

    def means(self, x: Tensor) -> Tensor:
        """(..., frames) to (..., segments): the mean of each segment."""
        return x @ self.members / self.sizes

    def mean(self, means: Tensor) -> Tensor:
        """(..., segments) means to (..., 1): the mean over all frames."""
        return (means * (self.sizes / self.sizes.sum())).sum(dim=-1, keepdim=True)

    def repeat(self, values: Tensor) -> Tensor:
        """(..., segments) to (..., frames): each segment's value at all of its frames."""
        return values @ self.members.T


class ContextMask(nn.Module):
    """Context-aware masking: a local convolution, gated by the mean of all frames plus that of the segment.

    Means are products with 0/1 matrices: an average pool that rounds up is divided differently by different
    runtimes.
    """

    def __init__(self, num_in: int, num_out: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        padding = (kernel_size - 1) // 2 * dilation
        self.linear_local = nn.Conv1d(
            num_in, num_out, kernel_size, padding=padding, dilation=dilation, bias=False
        )
        self.linear1 = nn.Conv1d(num_in, num_in // 2, 1)
        self.linear2 = nn.Conv1d(num_in // 2, num_out, 1)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        """(b, num_in, frames) to (b, num_out, frames)."""
        means = segments.means(x)
        context = means + segments.mean(means)
        gate = torch.sigmoid(self.linear2(torch.relu(self.linear1(context))))
        local: Tensor = self.linear_local(x)
        return local * segments.repeat(gate)


class DenseLayer(nn.Module):
    """One layer of a D-TDNN block: norm, bottleneck, norm, context-aware masking."""

    def __init__(self, num_in: int, growth: int, bottleneck: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        self.nonlinear1 = _norm_relu(num_in)
        self.linear1 = nn.Conv1d(num_in, bottleneck, 1, bias=False)
        self.nonlinear2 = _norm_relu(bottleneck)
        self.cam_layer = ContextMask(bottleneck, growth, kernel_size, dilation)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        """(b, num_in, frames) to (b, growth, frames)."""
        return cast(Tensor, self.cam_layer(self.nonlinear2(self.linear1(self.nonlinear1(x))), segments))


class DenseBlock(nn.Module):
    """D-TDNN block: each layer sees the input and the outputs of all layers before it."""

    def __init__(self, num_layers: int, num_in: int, growth: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        for layer in range(num_layers):
            dense = DenseLayer(num_in + layer * growth, growth, 4 * growth, kernel_size, dilation)
            self.add_module(f"tdnnd{layer + 1}", dense)

    def forward(self, x: Tensor) -> Tensor:
        """(b, num_in, frames) to (b, num_in + num_layers * growth, frames)."""
        segments = Segments.of(x)
        for layer in self.children():
            x = torch.cat([x, layer(x, segments)], dim=1)
        return x


class CamppTrunk(nn.Module):
    """Everything before the statistics: fbank (b, frames, bins) to (b, channels, trunk_frames), float32.

    The fbank comes with its mean over the stretch already taken off.
    """

    def __init__(
        self,
        num_bins: int = 80,
        *,
        head_channels: int = 32,
        initial_channels: int = 128,
        growth: int = 32,
        layers: tuple[int, ...] = (12, 24, 16),
        dilations: tuple[int, ...] = (1, 2, 2),
    ) -> None:
        super().__init__()
        self.head = ConvolutionalHead(head_channels)
        tdnn = nn.Conv1d(
            head_channels * num_bins // 8, initial_channels, 5, stride=_TRUNK_STRIDE, padding=2, bias=False
        )
        self.tdnn = nn.Sequential(OrderedDict(linear=tdnn, nonlinear=_norm_relu(initial_channels)))
        channels = initial_channels
        self.stages = nn.Sequential()
        for stage, (num_layers, dilation) in enumerate(zip(layers, dilations, strict=True), start=1):
            self.stages.add_module(f"block{stage}", DenseBlock(num_layers, channels, growth, 3, dilation))
            channels += num_layers * growth
            transit = OrderedDict(
                nonlinear=_norm_relu(channels), linear=nn.Conv1d(channels, channels // 2, 1, bias=False)
            )
            self.stages.add_module(f"transit{stage}", nn.Sequential(transit))
            channels //= 2
        self.out_nonlinear = _norm_relu(channels)
        self.channels = channels

    def forward(self, fbank: Tensor) -> Tensor:
        """(b, frames, bins) to (b, channels, trunk_frames)."""
        features = self.tdnn(self.head(fbank.transpose(1, 2)))
        return cast(Tensor, self.out_nonlinear(self.stages(features)))


class CamppHead(nn.Module):
    """Pooled statistics (m, 2 channels) to embeddings (m, dim), float32: a linear layer and its norm."""

    def __init__(self, channels: int = TRUNK_CHANNELS, dim: int = 192) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * channels, dim, bias=False)
        self.batchnorm = nn.BatchNorm1d(dim, affine=False)

    def forward(self, statistics: Tensor) -> Tensor:
        """(m, 2 channels) to (m, dim)."""
        return cast(Tensor, self.batchnorm(self.linear(statistics)))


def load_campplus(path: Path, sha256: str | None = None) -> tuple[CamppTrunk, CamppHead]:
    """Trunk and head with the weights of a 3D-Speaker checkpoint, on the CPU, in evaluation mode.

    ``sha256``: hex digest the file must have; None leaves it unchecked.

    Raises SetupError ``E_WEIGHTS`` when the file is missing, altered or made for another architecture.
    """
    weights = read_checkpoint(path, sha256)
    trunk = CamppTrunk()
    trunk_weights = {_trunk_key(key): value for key, value in weights.items() if not _is_head(key)}
    load_strictly(trunk, trunk_weights, path)
    return trunk.eval().requires_grad_(False), _head(weights, path)


def load_campplus_head(path: Path, sha256: str | None = None) -> CamppHead:
    """The head alone, for lanes that have the trunk from elsewhere; otherwise as ``load_campplus``."""
    return _head(read_checkpoint(path, sha256), path)


def _is_head(key: str) -> bool:
    return key.startswith(_HEAD_PREFIX)


def _head(weights: Mapping[str, Tensor], path: Path) -> CamppHead:
    head = CamppHead()
    head_weights = {
        key.removeprefix(_HEAD_PREFIX).removeprefix("nonlinear."): value
        for key, value in weights.items()
        if _is_head(key)
    }
    if (matrix := head_weights.get("linear.weight")) is not None:  # stored as a convolution over one frame
        head_weights["linear.weight"] = matrix.squeeze(-1)
    load_strictly(head, head_weights, path)
    return head.eval().requires_grad_(False)


def _trunk_key(key: str) -> str:
    """Name in CamppTrunk of a checkpoint key.

    >>> _trunk_key("xvector.block1.tdnnd1.linear1.weight"), _trunk_key("head.bn1.bias")
    ('stages.block1.tdnnd1.linear1.weight', 'head.bn1.bias')
    """
    name = key.removeprefix("xvector.")
    return f"stages.{name}" if name.startswith(("block", "transit")) else name
