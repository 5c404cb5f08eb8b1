"""Single-speaker utterances: what to build conversations and calibrations from.

Where an utterance is speech is decided by its energy alone, so that a reference made from it is honest and
needs no network: 20 ms of the signal above 100 Hz are speech if they are louder than the utterance's 95th
percentile less 35 dB and than its 5th percentile (the room) plus 8 dB; pauses up to 0.3 s between two such
stretches belong to the speech, bursts under 0.1 s do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
from scipy import signal

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE

AUDIO_SUFFIXES = (".flac", ".wav")
MAX_BRIDGED = int(0.3 * SAMPLE_RATE)  # a pause up to this long is part of the speech around it
_MIN_BURST = int(0.1 * SAMPLE_RATE)
_STEP = SAMPLE_RATE // 100  # 10 ms from one level to the next
_FIELD = 2 * _STEP
_RANGE_DB = 35.0  # quieter than this under the loud parts is not speech
_ABOVE_ROOM_DB = 8.0
_LEAST_RANGE_DB = 20.0  # an utterance without a pause has no room level: its 5th percentile is speech
SPEECH_RMS = 10 ** (-26 / 20)  # every utterance is brought to -26 dB of full scale while it is speech
_POWER_FLOOR = 1e-10  # -100 dB
_SILENT_DB = -80.0  # loud parts under this: nothing was recorded
_CACHED_UTTERANCES = 64

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Utterance:
    """One speaker's recording.

    samples: (samples,) float32 at 16 kHz, its speech at -26 dB of full scale. speech: half-open stretches
    ``(start, end)`` in samples, in order. levels: (step,) dB, one every 10 ms.
    """

    samples: Floats
    speech: tuple[tuple[int, int], ...]
    levels: Floats

    def next_speech(self, position: int) -> int | None:
        """The first sample at or behind ``position`` that is speech; None if there is none."""
        return next((max(start, position) for start, end in self.speech if end > position), None)

    def quiet_point(self, position: int, reach: int) -> int:
        """The quietest place, on the grid of the levels, at most ``reach`` samples from ``position``."""
        first = max(0, (position - reach) // _STEP)
        around = self.levels[first : (position + reach) // _STEP + 1]
        return min((first + int(around.argmin())) * _STEP, len(self.samples)) if len(around) else position


def list_speakers(folder: Path) -> dict[str, tuple[Path, ...]]:
    """The speakers of a folder with one sub-folder each: name -> its flac and wav files, sorted.

    Raises SetupError if there is none.
    """
    if not folder.is_dir():
        raise SetupError("E_SPEAKERS", f"no folder {folder}")
    speakers = {
        sub.name: tuple(sorted(file for file in sub.rglob("*") if file.suffix.lower() in AUDIO_SUFFIXES))
        for sub in sorted(folder.iterdir())
        if sub.is_dir()
    }
    speakers = {name: files for name, files in speakers.items() if files}
    if not speakers:
        raise SetupError("E_SPEAKERS", f"expected one sub-folder of flac or wav files a speaker in {folder}")
    return speakers


def read_audio(path: Path) -> Floats:
    """Read an audio file as (samples,) float32 in [-1, 1], 16 kHz mono (channels averaged).

    Raises SetupError when it cannot be read.
    """
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as err:
        raise SetupError("E_FILE", f"cannot read {path}: {err}") from None
    mono: Floats = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1)
    if rate == SAMPLE_RATE:
        return mono
    shared = gcd(rate, SAMPLE_RATE)
    resampled: Floats = signal.resample_poly(mono, SAMPLE_RATE // shared, rate // shared).astype(np.float32)
    return resampled


@lru_cache(maxsize=_CACHED_UTTERANCES)
def load_utterance(path: Path) -> Utterance:
    """Read, find the speech and bring it to the common level; SetupError if there is no speech in it."""
    samples = read_audio(path)
    levels = _levels(samples)
    speech = _find_speech(levels, len(samples))
    if not speech:
        raise SetupError("E_FILE", f"no speech in {path}")
    power = np.mean([np.mean(np.square(samples[start:end], dtype=np.float64)) for start, end in speech])
    return Utterance(samples * np.float32(SPEECH_RMS / np.sqrt(power)), speech, levels)


def _levels(samples: Floats) -> Floats:
    """Level in dB of the 20 ms around the middle of each 10 ms, without what lies under 100 Hz."""
    if len(samples) < _FIELD:
        return np.zeros(0, np.float32)
    highpass = signal.butter(4, 100, "highpass", fs=SAMPLE_RATE, output="sos")
    padded = np.pad(signal.sosfilt(highpass, samples), (_STEP // 2, _FIELD))
    steps = len(samples) // _STEP
    fields = np.lib.stride_tricks.sliding_window_view(padded, _FIELD)[::_STEP][:steps]
    levels: Floats = (10 * np.log10(np.mean(np.square(fields), axis=1) + _POWER_FLOOR)).astype(np.float32)
    return levels


def _find_speech(levels: Floats, num_samples: int) -> tuple[tuple[int, int], ...]:
    """Apply the rule of the module's head."""
    if not len(levels):
        return ()
    room, loud = np.percentile(levels, [5, 95])
    if loud < _SILENT_DB:
        return ()
    threshold = max(loud - _RANGE_DB, min(room + _ABOVE_ROOM_DB, loud - _LEAST_RANGE_DB))
    active = np.concatenate([[False], levels > threshold, [False]])
    edges = np.flatnonzero(active[1:] != active[:-1]) * _STEP
    stretches = bridge(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    return tuple((a, min(b, num_samples)) for a, b in stretches if b - a >= _MIN_BURST)


def bridge(stretches: Iterable[tuple[int, int]], longest: int = MAX_BRIDGED) -> list[tuple[int, int]]:
    """Join stretches, in order of their starts, that lie at most ``longest`` samples apart.

    >>> bridge([(0, 100), (4_900, 5_000), (9_801, 9_900)])
    [(0, 5000), (9801, 9900)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in stretches:
        if joined and start - joined[-1][1] <= longest:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
