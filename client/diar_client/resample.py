"""From channels at any rate to 16 kHz mono, a piece at a time."""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt

from diar.errors import InvalidOption
from diar.profile import SAMPLE_RATE
from diar_client.sound_file import Channels

Mono = npt.NDArray[np.float32]  # (sample,), full scale 1

CANCELLED = 0.01  # an average 20 dB below its channels: they are the same sound with opposite signs
FILTER_SAMPLES = 64  # more than the resampler's filter reaches, at the lower of its two rates


class Mixer:
    """Folds channels into one, and notices when averaging them has cancelled the sound.

    channel: index of the one to take; None averages all.
    """

    def __init__(self, name: str, channel: int | None) -> None:
        self._name = name
        self._channel = channel
        self._channel_energy = np.zeros(1)
        self._mixed_energy = 0.0

    def fold(self, piece: Channels) -> Mono:
        """(channel, sample) -> (sample,). InvalidOption if the chosen channel is not there."""
        if self._channel is not None:
            if not 0 <= self._channel < len(piece):
                raise InvalidOption(
                    "E_OPTION_CHANNEL",
                    f"channel: got {self._channel}, {self._name} has {len(piece)} (0 to {len(piece) - 1})",
                )
            chosen: Mono = piece[self._channel]
            return chosen
        if len(piece) == 1:
            only: Mono = piece[0]
            return only
        mixed: Mono = piece.mean(axis=0, dtype=np.float32)
        if len(self._channel_energy) != len(piece):
            self._channel_energy, self._mixed_energy = np.zeros(len(piece)), 0.0
        self._channel_energy += [float(samples @ samples) for samples in piece]
        self._mixed_energy += float(mixed @ mixed)
        return mixed

    @property
    def lost(self) -> int | None:
        """The loudest channel if the average has (nearly) cancelled the sound, else None."""
        energy = self._channel_energy
        if len(energy) > 1 and self._mixed_energy < CANCELLED * float(energy.mean()):
            return int(energy.argmax())
        return None


class Resampler:
    """Streaming conversion of one channel from ``rate`` Hz to 16 kHz by libswresample.

    n samples in give ``ceil(n * 16000 / rate)`` out, however they are cut into pieces.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._swr = None if rate == SAMPLE_RATE else av.AudioResampler("fltp", "mono", SAMPLE_RATE)
        self._taken = 0
        self._given = 0

    def push(self, samples: Mono) -> Mono:
        """Take (sample,) at ``rate``; return what is ready, (sample,) at 16 kHz."""
        self._taken += len(samples)
        ready = self._convert(samples)
        self._given += len(ready)
        return ready

    def flush(self) -> Mono:
        """The rest of the sound, once all of it was pushed."""
        padding = FILTER_SAMPLES * max(1, -(-self.rate // SAMPLE_RATE))
        rest = self._convert(np.zeros(padding, np.float32))
        if self._swr is not None:
            rest = np.concatenate([rest, *(frame.to_ndarray()[0] for frame in self._swr.resample(None))])
        return rest[: -(-self._taken * SAMPLE_RATE // self.rate) - self._given]

    def _convert(self, samples: Mono) -> Mono:
        if self._swr is None:
            return samples
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), format="fltp", layout="mono")
        frame.sample_rate = self.rate
        parts = [part.to_ndarray()[0] for part in self._swr.resample(frame)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
