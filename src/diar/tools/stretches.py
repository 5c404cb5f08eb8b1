"""Stretches of single speakers, embedded as the profile embeds a speaker's own frames, and their cosines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from diar.block import BlockRunner
from diar.profile import FBANK_FIELD_SAMPLES, FBANK_STEP_SAMPLES, SAMPLE_RATE
from diar.tools.utterances import Utterance, load_utterance
from diar.tools.voices import speech_frames, unit

DURATIONS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST_PER_UTTERANCE = 6  # stretches of one duration

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stretches:
    """Embedded stretches of speech.

    speaker, utterance: (stretch,) indices. first: (stretch,) its first frame among the utterance's frames of
    speech. seconds: (stretch,) float64, one of DURATIONS_S. vectors: (stretch, dim) float64 of length 1.
    names: (speaker,).
    """

    names: tuple[str, ...]
    speaker: npt.NDArray[np.intp]
    utterance: npt.NDArray[np.intp]
    first: npt.NDArray[np.intp]
    seconds: Floats
    vectors: Floats


@dataclass(frozen=True)
class Pairs:
    """Pairs of stretches that share no frame. cosine, short_s, long_s: (pair,) float64, seconds of the two.

    one, two: (pair,) their speakers.
    """

    cosine: Floats
    short_s: Floats
    long_s: Floats
    one: npt.NDArray[np.intp]
    two: npt.NDArray[np.intp]

    @property
    def same(self) -> npt.NDArray[np.bool_]:
        """(pair,) whether one speaker said both."""
        return np.asarray(self.one == self.two)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Pairs:
        """The chosen pairs; chosen: (pair,)."""
        return Pairs(
            self.cosine[chosen],
            self.short_s[chosen],
            self.long_s[chosen],
            self.one[chosen],
            self.two[chosen],
        )


def embed_stretches(speakers: Mapping[str, Sequence[Path]], runner: BlockRunner) -> Stretches:
    """Cut every utterance into stretches of each duration and embed them."""
    rows = []
    utterance = 0
    for speaker, files in enumerate(speakers.values()):
        for path in files:
            for first, seconds, vector in _embed_utterance(load_utterance(path), runner):
                rows.append((speaker, utterance, first, seconds, vector))
            utterance += 1
    speaker_, utterance_, first_, seconds_, vectors = zip(*rows, strict=True)
    return Stretches(
        tuple(speakers),
        np.array(speaker_, np.intp),
        np.array(utterance_, np.intp),
        np.array(first_, np.intp),
        np.array(seconds_, np.float64),
        unit(np.array(vectors, np.float64)),
    )


def _embed_utterance(
    utterance: Utterance, runner: BlockRunner
) -> Iterator[tuple[int, float, npt.NDArray[np.float32]]]:
    """First frame of speech, seconds and embedding of each stretch, spread evenly over the utterance."""
    active = speech_frames(utterance)
    frames = np.flatnonzero(active)
    for seconds in DURATIONS_S:
        length = round(seconds * SAMPLE_RATE / FBANK_STEP_SAMPLES)
        count = min(len(frames) // length, MOST_PER_UTTERANCE)
        for first in np.linspace(0, len(frames) - length, count).astype(int).tolist():
            begin, last = frames[first], frames[first + length - 1]
            samples = utterance.samples[
                begin * FBANK_STEP_SAMPLES : last * FBANK_STEP_SAMPLES + FBANK_FIELD_SAMPLES
            ]
            yield first, seconds, runner.embed(samples, active[begin : last + 1])


def all_pairs(stretches: Stretches) -> Pairs:
    """Every pair of stretches that share no frame."""
    one, two = np.triu_indices(len(stretches.seconds), 1)
    s = stretches
    end = s.first + np.rint(s.seconds * SAMPLE_RATE / FBANK_STEP_SAMPLES).astype(np.intp)
    apart = (s.utterance[one] != s.utterance[two]) | (s.first[one] >= end[two]) | (s.first[two] >= end[one])
    one, two = one[apart], two[apart]
    seconds = np.sort(np.stack([s.seconds[one], s.seconds[two]]), axis=0)
    cosine = np.einsum("id,id->i", s.vectors[one], s.vectors[two])
    return Pairs(cosine, seconds[0], seconds[1], s.speaker[one], s.speaker[two])
