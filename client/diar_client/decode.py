"""Sound in whatever form a caller has it, made into what the server takes: 16 kHz mono."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from diar.audio import check_samples
from diar.errors import InvalidAudio
from diar.profile import SAMPLE_RATE
from diar.spans import Samples
from diar_client.resample import Mixer, Mono, Resampler
from diar_client.sound_file import Channels, SoundFile

Pcm = npt.NDArray[np.int16]  # (sample,), 16 kHz mono, full scale 32768
Watch = Callable[[int], object]

LOUD = 2.0  # a peak above this says that the file's scale is not [-1, 1]; below it is overshoot


class AudioWarning(UserWarning):
    """A file was read, but not all of it or not as it stands."""


@dataclass(frozen=True)
class Decoded:
    """The sound of a file. notes: what a user should know about how it was read, a line each."""

    samples: Pcm
    notes: tuple[str, ...]


def decode_file(
    path: str | os.PathLike[str],
    *,
    channel: int | None = None,
    watch: Watch = lambda num_samples: None,
) -> Decoded:
    """Decode a file of any common format to 16 kHz mono.

    channel: the one to take, counted from 0; None averages all, or takes the loudest if averaging would
    cancel the sound. watch: called for about each second of sound with the samples so far; what it raises
    ends the decoding. The first audio stream counts; its content, not its name, says what it is. Memory is
    that of the result.

    Raises InvalidAudio if there is no file, nothing can be decoded, or a sample is not finite; InvalidOption
    for a channel that the file does not have.
    """
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as stream:
            return decode_stream(stream, name, channel=channel, watch=watch)
    except OSError as err:
        raise InvalidAudio("E_AUDIO_FILE", f"{name}: {err.strerror or err}") from None


def decode_stream(
    stream: BinaryIO,
    name: str,
    *,
    channel: int | None = None,
    max_samples: int | None = None,
    watch: Watch = lambda num_samples: None,
) -> Decoded:
    """As ``decode_file``, from an open seekable file. name: for messages.

    max_samples: InvalidAudio (E_AUDIO_TOO_LONG) as soon as there are more; takes the place of watch.
    """
    if max_samples is not None:
        watch = _limit(name, max_samples)
    sound = SoundFile(stream, name)
    mixer = Mixer(name, channel)
    meter = _Meter()
    pcm = _collect(sound, mixer, meter, watch)
    notes = list(sound.notes)
    if mixer.lost is not None:
        notes.append(f"its channels cancel each other: took channel {mixer.lost} instead of their average")
        meter = _Meter()
        pcm = _collect(sound, Mixer(name, mixer.lost), meter, watch)
    if meter.peak > LOUD:
        notes.append(f"got samples up to {meter.peak:.4g}, expected them in [-1, 1]: clipped")
    return Decoded(pcm, tuple(notes))


def as_samples(array: npt.ArrayLike) -> Samples:
    """Check an array of 16 kHz mono samples; float64 becomes float32.

    array: (sample,) float32 or float64 in [-1, 1], or int16 with full scale 32768.

    Raises InvalidAudio for another shape or type, no samples, or samples that are not finite or out of scale.
    """
    samples = np.asarray(array)
    if samples.ndim == 2:
        raise InvalidAudio(
            "E_AUDIO_SHAPE",
            f"array: got shape {samples.shape}, expected (samples,): pick or average a channel",
        )
    for kind, dtype in (("f8", np.float32), ("f4", np.float32), ("i2", np.int16)):
        if samples.dtype.str[1:] == kind:
            with np.errstate(over="ignore"):
                samples = samples.astype(dtype, copy=False)
    check_samples(samples, what="array")
    return samples


def to_pcm(samples: Mono) -> Pcm:
    """(sample,) float32 as int16, clipped at full scale."""
    clipped = np.clip(samples, np.float32(-1), np.float32(32767 / 32768))
    pcm: Pcm = np.rint(clipped * np.float32(32768)).astype(np.int16)
    return pcm


@dataclass
class _Meter:
    """Greatest absolute sample seen."""

    peak: float = 0.0

    def watch(self, piece: Channels) -> None:
        self.peak = max(self.peak, float(piece.max()), -float(piece.min()))


def _collect(sound: SoundFile, mixer: Mixer, meter: _Meter, watch: Watch) -> Pcm:
    pcm = bytearray()  # grows in place, so that the peak is the size of the result
    for samples in _resampled(sound, mixer, meter):
        pcm += to_pcm(samples).tobytes()
        watch(len(pcm) // 2)
    return np.frombuffer(pcm, np.int16)


def _limit(name: str, max_samples: int) -> Watch:
    def check(num_samples: int) -> None:
        if num_samples > max_samples:
            limit_s = max_samples / SAMPLE_RATE
            raise InvalidAudio(
                "E_AUDIO_TOO_LONG", f"{name}: got more than {limit_s:.3f} s of audio, the limit"
            )

    return check


def _resampled(sound: SoundFile, mixer: Mixer, meter: _Meter) -> Iterator[Mono]:
    """The file's sound at 16 kHz; a new resampler wherever its rate changes."""
    resampler: Resampler | None = None
    for rate, piece in sound.pieces():
        meter.watch(piece)
        mono = mixer.fold(np.clip(piece, -1, 1) if meter.peak > 1 else piece)
        if resampler is None or resampler.rate != rate:
            if resampler is not None:
                yield resampler.flush()
            resampler = Resampler(rate)
        yield resampler.push(mono)
    if resampler is not None:
        yield resampler.flush()
