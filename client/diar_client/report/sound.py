"""What a report keeps of a recording's sound: peaks to draw, and a compact copy to play."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import av
import numpy as np
import numpy.typing as npt

from diar.errors import InvalidAudio
from diar.profile import SAMPLE_RATE
from diar.spans import Samples
from diar_client.decode import to_pcm

EMBEDDED_MB = 30.0  # of sound that a page carries at most: 2.8 h
BYTES_PER_S = 3_000  # Opus at 24 kbit/s: speech that is easy to follow
TYPE = "audio/webm"  # Opus in WebM: what all browsers play, and can seek in

PEAK_SAMPLES = SAMPLE_RATE // 100  # that one peak stands for, at least
MAX_PEAKS = 120_000  # of a page, whatever the length: 20 minutes at 10 ms, 10 h at 0.3 s

LARGEST_GAP_S = 0.1  # between the lengths of sound and result
_PIECE_SAMPLES = 60 * SAMPLE_RATE
_CODEC = "libopus"
_FAST = {"application": "voip", "compression_level": "5"}


@dataclass(frozen=True)
class Sound:
    """The sound of a recording of ``num_samples`` samples, as a report needs it.

    peaks: (peak,) uint8, greatest absolute sample of each ``ceil(num_samples / peaks)`` samples; 255: the
    greatest of the recording. encoded: a file of type TYPE to play; None where it would be too large.
    """

    num_samples: int
    peaks: npt.NDArray[np.uint8]
    encoded: bytes | None

    def check_length(self, num_samples: int) -> None:
        """Raise InvalidAudio if this cannot be the sound of a result of so many samples."""
        if abs(self.num_samples - num_samples) > LARGEST_GAP_S * SAMPLE_RATE:
            got, expected = self.num_samples / SAMPLE_RATE, num_samples / SAMPLE_RATE
            raise InvalidAudio(
                "E_AUDIO_LENGTH", f"got {got:.3f} s of sound, expected that of the result, {expected:.3f} s"
            )


def keep_sound(
    samples: Samples, embed_mb: float = EMBEDDED_MB, watch: Callable[[], object] = lambda: None
) -> Sound:
    """What to keep of ``samples``: (sample,) 16 kHz mono, int16, or float32 in [−1, 1].

    embed_mb: encode the sound unless it would be more than so many megabytes. watch: called for each minute;
    what it raises ends the work.
    """
    fits = len(samples) / SAMPLE_RATE * BYTES_PER_S <= embed_mb * 1e6
    return Sound(len(samples), find_peaks(samples), encode(samples, watch) if fits else None)


def find_peaks(samples: Samples) -> npt.NDArray[np.uint8]:
    """See ``Sound.peaks``.

    >>> quiet_then_loud = np.repeat(np.array([-0.1, 0.2], np.float32), PEAK_SAMPLES)
    >>> find_peaks(quiet_then_loud)
    array([128, 255], dtype=uint8)
    """
    width = max(PEAK_SAMPLES, -(-len(samples) // MAX_PEAKS))
    starts = np.arange(0, len(samples), width)
    highest = np.maximum.reduceat(samples, starts).astype(np.float64)
    lowest = np.minimum.reduceat(samples, starts).astype(np.float64)
    peaks = np.maximum(highest, -lowest).clip(0)
    scaled: npt.NDArray[np.uint8] = np.rint(peaks * (255 / max(peaks.max(), 1e-9))).astype(np.uint8)
    return scaled


def encode(samples: Samples, watch: Callable[[], object]) -> bytes:
    """The samples as a file of type TYPE; about 170 times as fast as they play."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"fflags": "+bitexact"}) as container:  # no random marks
        stream = container.add_stream(_CODEC, rate=SAMPLE_RATE, options=_FAST)
        stream.layout = "mono"
        stream.bit_rate = BYTES_PER_S * 8
        for start in range(0, len(samples), _PIECE_SAMPLES):
            watch()
            container.mux(stream.encode(_frame(samples[start : start + _PIECE_SAMPLES], start)))
        container.mux(stream.encode(None))
    return file.getvalue()


def _frame(piece: Samples, start: int) -> av.AudioFrame:
    pcm = piece.astype(np.int16) if piece.dtype == np.int16 else to_pcm(piece.astype(np.float32))
    frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
    frame.sample_rate = SAMPLE_RATE
    frame.pts = start
    return frame
