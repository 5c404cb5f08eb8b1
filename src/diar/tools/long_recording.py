"""Recordings of many hours from one that the networks heard: the same conversation over and over.

A simulated conversation repeats its speakers' few utterances anyway, each time cut differently; here the
local speakers of the repeated windows differ by noise on their embeddings instead, and the networks need not
hear ten hours. Clustering and stitching then work on the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diar.pipeline import BlockResult
from diar.profile import SAMPLE_RATE, Profile
from diar.spans import Block
from diar.stopwatch import Stopwatch
from diar.tools.heard import Heard

EMBEDDING_NOISE = 0.3  # of a vector's length: two copies of one row have a cosine of about 0.92


@dataclass(frozen=True)
class LongCase:
    """What became of a long recording. network_s, clustering_s, stitching_s: the seconds that each took.

    network_s is estimated from the part that the networks heard.
    """

    hours: float
    reference: int
    found: int
    network_s: float
    clustering_s: float
    stitching_s: float

    def __str__(self) -> str:
        """Two lines."""
        share = self.clustering_s / (self.network_s + self.clustering_s + self.stitching_s)
        return (
            f"  {self.reference} -> {self.found}  {self.hours:.1f} h\n"
            f"  networks {self.network_s:.0f} s (estimated), clustering {self.clustering_s:.1f} s"
            f" ({share:.2%} of all), stitching {self.stitching_s:.1f} s"
        )


def closed_circle(samples: npt.NDArray[np.int16], num_blocks: int, profile: Profile) -> npt.NDArray[np.int16]:
    """Samples that go over into their own beginning, as long as ``num_blocks`` full blocks.

    samples: at least ``num_blocks * windows_per_block * hop`` of them; the rest is cut off.
    """
    geometry = profile.geometry
    period = num_blocks * geometry.windows_per_block * geometry.hop
    return np.concatenate([samples[:period], samples[: geometry.window - geometry.hop]])


def repeat(heard: Heard, times: int, profile: Profile, seed: int = 0) -> Heard:
    """A recording that plays a closed circle ``times`` times; repeated embeddings get noise of their own.

    The reference stays that of the first time.
    """
    geometry = profile.geometry
    count = len(heard.blocks)
    period = count * geometry.windows_per_block * geometry.hop
    rng = np.random.default_rng(seed)
    blocks = []
    for turn in range(times):
        for block, result in heard.blocks:
            index = turn * count + block.index
            first = index * geometry.windows_per_block
            moved = Block(index, first, block.num_windows, first * geometry.hop, block.num_samples)
            blocks.append((moved, _varied(result, rng) if turn else result))
    num_samples = times * period + geometry.window - geometry.hop
    return Heard(heard.name, num_samples, blocks, heard.reference)


def _varied(result: BlockResult, rng: np.random.Generator) -> BlockResult:
    def noisy(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        scale = EMBEDDING_NOISE * np.linalg.norm(vectors, axis=-1, keepdims=True) / np.sqrt(vectors.shape[-1])
        noise: npt.NDArray[np.float32] = rng.standard_normal(vectors.shape, np.float32)
        return np.asarray(vectors + scale.astype(np.float32) * noise)

    return replace(result, embeddings=noisy(result.embeddings), pure_embeddings=noisy(result.pure_embeddings))


def examine_long(heard: Heard, network_s_per_s: float, profile: Profile) -> LongCase:
    """Diarize and time it. network_s_per_s: seconds that the networks take for a second of audio."""
    watch = Stopwatch()
    found = heard.diarize(profile, stage=watch)
    duration = heard.num_samples / SAMPLE_RATE
    return LongCase(
        duration / 3600,
        heard.num_speakers,
        len(found.speakers),
        network_s_per_s * duration,
        watch.seconds["clustering"],
        watch.seconds["stitching"],
    )
