"""What happens to a simulated recording on its way: rooms, noise, a telephone line.

A channel takes consecutive chunks, (samples,) float32, and returns as many samples; it keeps its state from
chunk to chunk, so where a recording is cut into chunks changes nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import signal

from diar.profile import SAMPLE_RATE
from diar.tools.utterances import SPEECH_RMS, Floats

Channel = Callable[[Floats], Floats]

_REVERBERATION_S = (0.25, 0.7)  # of an office to that of a meeting room
_FIRST_REFLECTION_S = (0.002, 0.01)
_DIRECT_DB = (0.0, 10.0)  # direct over reverberant energy: far across a table to near
_TELEPHONE_HZ = (300.0, 3400.0)
_MU = 255.0  # ITU-T G.711 mu-law
_MU_STEPS = 127
_NOISE_POLE = 0.9  # noise falls by 6 dB an octave from about 270 Hz, as that of rooms does


def room(rng: np.random.Generator) -> Iterator[Floats]:
    """Impulse responses from one place after another of one room, each (samples,), 1 at sample 0.

    The sound that comes directly is left as it is, so a reference stays true. Behind it comes noise that
    decays exponentially: the statistical model of reverberation (J.-D. Polack, "La transmission de l'énergie
    sonore dans les salles", 1988; J. A. Moorer, "About this reverberation business", 1979). The room has one
    reverberation time; a place has its distance (direct to reverberant energy) and its first reflection.
    """
    decay_s = rng.uniform(*_REVERBERATION_S)
    time = np.arange(int(decay_s * SAMPLE_RATE)) / SAMPLE_RATE
    envelope = 10 ** (-3 * time / decay_s)  # 60 dB in the reverberation time
    while True:
        tail = rng.standard_normal(len(time)) * envelope
        tail[: int(rng.uniform(*_FIRST_REFLECTION_S) * SAMPLE_RATE)] = 0
        direct_db = rng.uniform(*_DIRECT_DB)
        tail *= 10 ** (-direct_db / 20) / np.sqrt(np.square(tail).sum())
        tail[0] = 1
        yield tail.astype(np.float32)


def noise(below_speech_db: float, rng: np.random.Generator) -> Channel:
    """Add steady, low-pitched noise, ``below_speech_db`` under the speech."""
    # A one-pole filter y = x + p y turns white noise of power 1 into noise of power 1 / (1 - p^2).
    gain = SPEECH_RMS * 10 ** (-below_speech_db / 20) * np.sqrt(1 - _NOISE_POLE**2)
    state = np.zeros(1)

    def add(chunk: Floats) -> Floats:
        nonlocal state
        white = gain * rng.standard_normal(len(chunk))
        coloured, state = signal.lfilter([1.0], [1.0, -_NOISE_POLE], white, zi=state)
        noisy: Floats = (chunk + coloured).astype(np.float32)
        return noisy

    return add


def telephone() -> Channel:
    """Pass 300 to 3400 Hz and quantise as mu-law (8 bits) does."""
    band = signal.butter(3, _TELEPHONE_HZ, "bandpass", fs=SAMPLE_RATE, output="sos")
    state = np.zeros((len(band), 2))

    def transmit(chunk: Floats) -> Floats:
        nonlocal state
        passed, state = signal.sosfilt(band, chunk, zi=state)
        squeezed = np.log1p(_MU * np.minimum(np.abs(passed), 1)) / np.log1p(_MU)
        steps = np.rint(squeezed * _MU_STEPS) / _MU_STEPS
        heard: Floats = (np.sign(passed) * np.expm1(steps * np.log1p(_MU)) / _MU).astype(np.float32)
        return heard

    return transmit
