"""The segmentation network of pyannote (PyanNet): 10 s of waveform in, powerset classes per frame out.

Architecture after H. Bredin and A. Laurent, "End-to-end speaker segmentation for overlap-aware
resegmentation" (Interspeech 2021); its classes after A. Plaquet and H. Bredin, "Powerset multi-class cross
entropy loss for neural speaker diarization" (Interspeech 2023); its first layer after M. Ravanelli and
Y. Bengio, "Speaker recognition from raw waveform with SincNet" (SLT 2018).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diar.errors import SetupError
from diar.networks.checkpoint import load_strictly, read_checkpoint

MIN_LOW_HZ = 50.0  # lowest lower edge of a sinc filter
MIN_BAND_HZ = 50.0  # narrowest band of a sinc filter
_POOL_SIZE = 3  # max pooling behind each of the three convolutions
_FILTERBANK = "sincnet.conv1d.0.filterbank."  # what the checkpoint stores instead of the first kernel


def sinc_filters(low_hz: Tensor, band_hz: Tensor, window: Tensor, times: Tensor, sample_rate: int) -> Tensor:
    """Kernels of the first layer: for each band an even (cosine) and an odd (sine) band-pass filter.

    low_hz, band_hz: (bands, 1) learnt lower edges and widths, before the minima are added.
    window: (half,) left half of the window. times: (1, half) 2 pi t of the left half, t < 0 in seconds.
    Returns (2 bands, 1, 2 half + 1) float32, all even filters first.
    """
    low = MIN_LOW_HZ + low_hz.abs()
    high = (low + MIN_BAND_HZ + band_hz.abs()).clamp(MIN_LOW_HZ, sample_rate / 2)
    band = high - low
    even = (torch.sin(high @ times) - torch.sin(low @ times)) / (times / 2) * window
    odd = (torch.cos(low @ times) - torch.cos(high @ times)) / (times / 2) * window
    even = torch.cat([even, 2 * band, even.flip(1)], dim=1)
    odd = torch.cat([odd, torch.zeros_like(band), -odd.flip(1)], dim=1)
    return (torch.cat([even, odd]) / (2 * band).repeat(2, 1)).unsqueeze(1)


class SincNet(nn.Module):
    """Waveform (n, 1, samples) to features (n, channels[-1], frames), float32.

    The sinc filters are an ordinary kernel here: they are computed once, from the checkpoint.
    """

    def __init__(
        self,
        stride: int,
        filter_size: int = 251,
        channels: tuple[int, int, int] = (80, 60, 60),
        kernel_size: int = 5,
    ) -> None:
        super().__init__()
        self.wav_norm1d = nn.InstanceNorm1d(1, affine=True)
        self.conv1d = nn.ModuleList([nn.Conv1d(1, channels[0], filter_size, stride=stride, bias=False)])
        for num_in, num_out in pairwise(channels):
            self.conv1d.append(nn.Conv1d(num_in, num_out, kernel_size))
        self.norm1d = nn.ModuleList(nn.InstanceNorm1d(size, affine=True) for size in channels)

    def forward(self, waveform: Tensor) -> Tensor:
        """(n, 1, samples) to (n, channels[-1], frames)."""
        features: Tensor = self.wav_norm1d(waveform)
        for layer, (conv, norm) in enumerate(zip(self.conv1d, self.norm1d, strict=True)):
            features = conv(features)
            if layer == 0:  # the magnitude of the band-passed signal
                features = features.abs()
            features = F.leaky_relu(norm(F.max_pool1d(features, _POOL_SIZE)))
        return features


class PyanNet(nn.Module):
    """Waveform windows (n, samples) to log-probabilities (n, frames, classes), float32.

    With the default sizes 160 000 samples give 589 frames, one every 270 samples.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        sinc_stride: int = 10,
        lstm_size: int = 128,
        lstm_layers: int = 4,
        linear_size: int = 128,
        linear_layers: int = 2,
    ) -> None:
        super().__init__()
        self.sincnet = SincNet(sinc_stride)
        self.lstm = nn.LSTM(
            self.sincnet.conv1d[-1].out_channels,
            lstm_size,
            num_layers=lstm_layers,
            bidirectional=True,
            batch_first=True,
        )
        sizes = [2 * lstm_size] + [linear_size] * linear_layers
        self.linear = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.classifier = nn.Linear(sizes[-1], num_classes)

    def forward(self, waveform: Tensor) -> Tensor:
        """(n, samples) to (n, frames, classes) log-probabilities of the powerset classes."""
        features = self.sincnet(waveform.unsqueeze(1))
        features, _ = self.lstm(features.transpose(1, 2))
        for linear in self.linear:
            features = F.leaky_relu(linear(features))
        return F.log_softmax(self.classifier(features), dim=-1)


def load_segmentation(path: Path, sha256: str | None = None) -> PyanNet:
    """PyanNet with the sizes and weights of a checkpoint, on the CPU, in evaluation mode.

    ``sha256``: hex digest the file must have; None leaves it unchecked.

    Raises SetupError ``E_WEIGHTS`` when the file is missing, altered or made for another architecture.
    """
    checkpoint = read_checkpoint(path, sha256)
    try:
        model, weights = checkpoint["model"], dict(checkpoint["state_dict"])
        network = PyanNet(model["output_dim"], **_sizes(model))
        low, band, window, times = (
            weights.pop(_FILTERBANK + name) for name in ("low_hz_", "band_hz_", "window_", "n_")
        )
        filters = sinc_filters(low, band, window, times, model["sample_rate"])
        weights["sincnet.conv1d.0.weight"] = filters
    except (KeyError, TypeError) as err:
        raise SetupError("E_WEIGHTS", f"{path} is no PyanNet checkpoint: {err!r}") from err
    load_strictly(network, weights, path)
    return network.eval().requires_grad_(False)


def _sizes(model: dict[str, Any]) -> dict[str, int]:
    """Arguments of PyanNet from the ``model`` table of a checkpoint; KeyError where it says nothing."""
    lstm, linear = model["lstm"], model["linear"]
    return {
        "sinc_stride": model["sincnet"]["stride"],
        "lstm_size": lstm["hidden_size"],
        "lstm_layers": lstm["num_layers"],
        "linear_size": linear["hidden_size"],
        "linear_layers": linear["num_layers"],
    }
