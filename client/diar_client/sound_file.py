"""Reading the sound of a file: any container and codec that libav knows, in pieces of about a second."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import av
import numpy as np
import numpy.typing as npt

from diar.errors import InvalidAudio

Channels = npt.NDArray[np.float32]  # (channel, sample), full scale 1

RATES = range(1_000, 1_000_001)  # Hz; outside of it the header is wrong
PIECE_S = 1.0
FULL_SCALE = {"u1": 128.0, "i2": 32768.0, "i4": 2147483648.0}  # of libav's integer samples, by dtype
EXACT_DURATION = ("flac", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2")  # others guess it from the bit rate
NO_OTHER_FILES = {"protocol_whitelist": "none"}  # a playlist must not make libav open what it names
PYAV_PLANES = 8
TRUNCATED_S = 0.1  # a shorter piece that is missing is no more than a codec's padding


@dataclass
class SoundFile:
    """An open, seekable file and what went wrong while it was read.

    name: for messages. notes: one line for each thing that a user should know, complete once ``pieces`` is
    exhausted.
    """

    stream: BinaryIO
    name: str
    notes: list[str] = field(default_factory=list)

    def pieces(self) -> Iterator[tuple[int, Channels]]:
        """The first audio stream as (sample rate, (channel, sample) float32), at least ``PIECE_S`` long each.

        The rate and the number of channels may change between pieces (chained or broken files). Damaged
        packets are skipped, a broken-off file ends early; both leave a note. Samples are finite.

        Raises InvalidAudio if nothing can be decoded, at a NaN or an infinity.
        """
        self.stream.seek(0)
        self.notes.clear()
        with self._open() as container:
            stream = self._stream(container)
            promised_s = self._promised_seconds(container, stream)
            decoded_s = 0.0
            for rate, piece in _gather(self._frames(container, stream)):
                check_finite(piece, rate, decoded_s, self.name)
                decoded_s += piece.shape[1] / rate
                yield rate, piece
        if decoded_s == 0:
            reason = "; ".join(self.notes) or "its header is all there is"
            raise InvalidAudio("E_AUDIO_EMPTY", f"{self.name}: it holds no samples: {reason}")
        if promised_s is not None and promised_s - decoded_s > TRUNCATED_S:
            self.notes.append(
                f"truncated: {decoded_s:.3f} s of the {promised_s:.3f} s that its header promises"
            )

    def _open(self) -> Any:
        if not self.stream.read(1):
            raise InvalidAudio("E_AUDIO_EMPTY", f"{self.name}: it has 0 bytes")
        self.stream.seek(0)
        return open_container(self.stream, self.name)

    def _stream(self, container: Any) -> Any:
        if not container.streams.audio:
            raise InvalidAudio("E_AUDIO_STREAM", f"{self.name}: it holds no audio stream")
        return container.streams.audio[0]

    def _frames(self, container: Any, stream: Any) -> Iterator[tuple[int, Channels]]:
        """Every frame that can be decoded, as (sample rate, (channel, sample) float32)."""
        damaged = 0
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
            except av.FFmpegError as err:
                self.notes.append(f"broken off: {_reason(err)}")
                break
            if packet is None:
                break
            try:
                frames = packet.decode()
            except av.FFmpegError:
                damaged += 1
                continue
            for frame in frames:
                if frame.samples:
                    yield self._check_rate(frame.sample_rate), self._to_float(_readable(frame))
        if damaged:
            self.notes.append(f"damaged: {damaged} packet(s) could not be decoded and were left out")

    def _check_rate(self, rate: int) -> int:
        if rate not in RATES:
            raise InvalidAudio(
                "E_AUDIO_RATE", f"{self.name}: got {rate} Hz, expected {RATES.start} to {RATES.stop - 1} Hz"
            )
        return rate

    def _to_float(self, frame: Any) -> Channels:
        try:
            array = frame.to_ndarray()
        except ValueError as err:
            raise InvalidAudio("E_AUDIO_FORMAT", f"{self.name}: {_reason(err)}") from None
        if not frame.format.is_planar:
            array = np.ascontiguousarray(array.reshape(frame.samples, -1).T)
        kind = array.dtype.str[1:]
        with np.errstate(over="ignore") if kind == "f8" else nullcontext():  # infinity then, found later
            samples: Channels = array.astype(np.float32)
        if kind == "u1":
            samples -= np.float32(FULL_SCALE[kind])
        if kind in FULL_SCALE:
            samples /= np.float32(FULL_SCALE[kind])
        return samples

    def _promised_seconds(self, container: Any, stream: Any) -> float | None:
        """How long the header says the sound is; None where it does not say or libav only estimates."""
        if container.format.name == "wav":
            return _riff_seconds(self.stream)
        if container.format.name not in EXACT_DURATION:
            return None
        if stream.duration is not None:
            return float(stream.duration * stream.time_base)
        return container.duration / 1e6 if container.duration else None  # libav counts microseconds


def open_container(stream: Any, name: str, options: dict[str, str] | None = None, **more: Any) -> Any:
    """Open a file or pipe with libav; InvalidAudio for no known format.

    options: libav's own. more: for ``av.open``.
    """
    try:
        return av.open(stream, metadata_errors="ignore", options=NO_OTHER_FILES | (options or {}), **more)
    except (av.FFmpegError, ValueError) as err:
        raise InvalidAudio("E_AUDIO_FORMAT", f"{name}: no known format: {_reason(err)}") from None


def _readable(frame: Any) -> Any:
    """The frame in a form that PyAV can hand to numpy.

    From 8 planes up it reads past the end of libav's list of them, which ends the process: these are packed.
    """
    if not frame.format.is_planar or frame.layout.nb_channels < PYAV_PLANES:
        return frame
    packer = av.AudioResampler(frame.format.packed, frame.layout, frame.sample_rate)
    (packed,) = packer.resample(frame)
    return packed


def _gather(frames: Iterator[tuple[int, Channels]]) -> Iterator[tuple[int, Channels]]:
    """Join frames of one rate and number of channels until they last ``PIECE_S``."""
    held: list[Channels] = []
    length, key = 0, (0, 0)
    for rate, samples in frames:
        if held and (key != (rate, len(samples)) or length >= PIECE_S * rate):
            yield key[0], np.concatenate(held, axis=1)
            held, length = [], 0
        key = (rate, len(samples))
        held.append(samples)
        length += samples.shape[1]
    if held:
        yield key[0], np.concatenate(held, axis=1)


def check_finite(piece: Channels, rate: int, before_s: float, name: str) -> None:
    """Raise InvalidAudio that names the first sample that is none. before_s: seconds before the piece."""
    bad = ~np.isfinite(piece)
    if not bad.any():
        return
    index = int(bad.any(axis=0).argmax())
    channel = int(bad[:, index].argmax())
    raise InvalidAudio(
        "E_AUDIO_NONFINITE",
        f"{name}: got {piece[channel, index]} at {before_s + index / rate:.4f} s (sample "
        f"{round(before_s * rate) + index} of channel {channel}), expected finite samples",
    )


def _riff_seconds(stream: BinaryIO) -> float | None:
    """Seconds that the chunk sizes of a RIFF/WAVE header promise; None if they are placeholders.

    The position of ``stream`` is kept: libav reads from the same file.
    """
    position = stream.tell()
    try:
        stream.seek(12)
        bytes_per_s = 0
        while len(head := stream.read(8)) == 8:
            name, size = head[:4], struct.unpack("<I", head[4:])[0]
            if name == b"data":
                return size / bytes_per_s if bytes_per_s and 0 < size < 0xFFFF_0000 else None
            if name == b"fmt ":
                bytes_per_s = struct.unpack("<I", stream.read(12)[8:12])[0]
                size -= 12
            stream.seek(size + size % 2, 1)
        return None
    except struct.error:
        return None
    finally:
        stream.seek(position)


def _reason(err: Exception) -> str:
    return str(getattr(err, "strerror", None) or err).splitlines()[0]
