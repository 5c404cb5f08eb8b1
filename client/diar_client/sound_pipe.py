"""Sound that comes through a pipe, as it comes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from diar.errors import InvalidAudio
from diar_client.decode import Pcm, to_pcm
from diar_client.resample import Mixer, Resampler
from diar_client.sound_file import SoundFile, check_finite, open_container

READ_BYTES = 4096  # at most, at a time: 0.13 s of 16-bit sound at 16 kHz
AT_ONCE = {"probesize": "8192"}  # bytes to know the format by: the usual look takes libav seconds


class _Descriptor:
    """What libav needs of a pipe: to get what is there, not to wait until a buffer is full."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        return os.read(self._descriptor, size)


class SoundPipe(SoundFile):
    """Any format that names itself and can be read from start to end (wav, mp3, ogg, flac, webm …)."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(_Descriptor(descriptor), "standard input")  # type: ignore[arg-type]  # no seeking

    def pcm(self, channel: int | None) -> Iterator[Pcm]:
        """16 kHz mono, frame by frame. channel: the one to take, from 0; None averages all.

        Raises InvalidAudio if it cannot be decoded, at a NaN or an infinity.
        """
        mixer = Mixer(self.name, channel)
        resampler: Resampler | None = None
        decoded_s = 0.0
        with open_container(self.stream, self.name, AT_ONCE, buffer_size=READ_BYTES) as container:
            for rate, frame in self._frames(container, self._stream(container)):
                check_finite(frame, rate, decoded_s, self.name)
                decoded_s += frame.shape[1] / rate
                if resampler is None or resampler.rate != rate:
                    if resampler is not None:
                        yield to_pcm(resampler.flush())
                    resampler = Resampler(rate)
                yield to_pcm(resampler.push(mixer.fold(frame)))
        if resampler is None:
            raise InvalidAudio("E_AUDIO_EMPTY", f"{self.name}: it holds no samples")
        yield to_pcm(resampler.flush())


def raw_pcm(descriptor: int, rate: int) -> Iterator[Pcm]:
    """16 kHz mono from raw 16-bit little-endian mono samples at ``rate``."""
    resampler = Resampler(rate)
    rest = b""
    while data := os.read(descriptor, READ_BYTES):
        data = rest + data
        whole = len(data) // 2 * 2
        samples = np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(32768)
        rest = data[whole:]
        yield to_pcm(resampler.push(samples))
    yield to_pcm(resampler.flush())
