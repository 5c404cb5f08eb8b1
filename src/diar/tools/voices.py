"""What voices are like: one embedding a speaker, and the pairs of speakers that are hardest to tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from diar.block import BlockRunner
from diar.errors import SetupError
from diar.profile import FBANK_FIELD_SAMPLES, FBANK_STEP_SAMPLES
from diar.tools.utterances import Utterance, load_utterance

MAX_VOICE_FRAMES = 1_000  # of each utterance, 10 s: as much as a window holds


class Pair(NamedTuple):
    """Two speakers and the cosine of their voices."""

    one: str
    two: str
    cosine: float


def speech_frames(utterance: Utterance) -> npt.NDArray[np.bool_]:
    """Which fbank frames of an utterance have their centre in speech: (frame,)."""
    count = max(0, 1 + (len(utterance.samples) - FBANK_FIELD_SAMPLES) // FBANK_STEP_SAMPLES)
    centres = np.arange(count) * FBANK_STEP_SAMPLES + FBANK_FIELD_SAMPLES // 2
    edges = np.array(utterance.speech).reshape(-1)  # start, end, start, end …
    inside: npt.NDArray[np.bool_] = np.searchsorted(edges, centres, side="right") % 2 == 1
    return inside


def embed_voice(files: Sequence[Path], runner: BlockRunner) -> npt.NDArray[np.float64]:
    """A speaker's voice: unit mean of the unit embeddings of the speech of each utterance, (dim,)."""
    vectors = []
    for path in files:
        utterance = load_utterance(path)
        active = speech_frames(utterance)
        active &= np.cumsum(active) <= MAX_VOICE_FRAMES
        vectors.append(unit(runner.embed(utterance.samples, active).astype(np.float64)))
    return unit(np.mean(vectors, axis=0))


def alike_pairs(speakers: Mapping[str, Sequence[Path]], runner: BlockRunner) -> list[Pair]:
    """All pairs of speakers, the most alike first; ties in order of their names."""
    voices = {name: embed_voice(files, runner) for name, files in speakers.items()}
    pairs = [Pair(a, b, float(voices[a] @ voices[b])) for a, b in combinations(sorted(voices), 2)]
    return sorted(pairs, key=lambda pair: (-pair.cosine, pair.one, pair.two))


def pair_of_rank(pairs: Sequence[Pair], rank: int) -> Pair:
    """The ``rank``-th most alike pair, from 1 on; SetupError (E_OPTION) if there is none."""
    if not 1 <= rank <= len(pairs):
        raise SetupError(
            "E_OPTION", f"alike: got rank {rank}, expected 1 to {len(pairs)}, the pairs there are"
        )
    return pairs[rank - 1]


def unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Vectors (…, dim) scaled to length 1; zeros stay zeros."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
