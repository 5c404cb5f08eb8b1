"""Recordings after the networks, so that clustering can be repeated with other constants at little cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from diar_client.decode import decode_file

from diar.block import BlockRunner
from diar.options import Options
from diar.pipeline import BlockResult, Recording, Stage
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Block, Samples, plan_blocks, take_span
from diar.tools.der import pool, read_rttm, score
from diar.turns import Turn


@dataclass(frozen=True)
class Heard:
    """A recording after the networks: all that clustering needs, and the reference."""

    name: str
    num_samples: int
    blocks: list[tuple[Block, BlockResult]]
    reference: Sequence[Turn]

    @property
    def num_speakers(self) -> int:
        """Speakers in the reference."""
        return len({turn.speaker for turn in self.reference})

    def diarize(
        self, profile: Profile, options: Options | None = None, stage: Stage = nullcontext
    ) -> Diarization:
        """Cluster and stitch with the constants of ``profile``; stage as in ``pipeline.diarize``."""
        recording = Recording(profile)
        for block, result in self.blocks:
            recording.add(block, result)
        return recording.finish(self.num_samples, options or Options(), stage)


def hear(
    name: str, samples: Samples, reference: Sequence[Turn], profile: Profile, runner: BlockRunner
) -> Heard:
    """Run the networks over one recording, (samples,) 16 kHz mono."""
    blocks = plan_blocks(len(samples), profile.geometry)
    results = [(block, runner.run(take_span(samples, block))) for block in blocks]
    return Heard(name, len(samples), results, reference)


def hear_file(audio: Path, rttm: Path, profile: Profile, runner: BlockRunner) -> Heard:
    """Run the networks over a file that has a reference."""
    return hear(audio.stem, decode_file(audio).samples, read_rttm(rttm), profile, runner)


def judge(recordings: Sequence[Heard], profile: Profile) -> tuple[float, float]:
    """Pooled DER at collar 0, overlap scored, and the mean absolute error of the number of speakers."""
    errors, counts = [], []
    for heard in recordings:
        found = heard.diarize(profile)
        errors.append(score(heard.reference, found.turns, heard.num_samples, 0.0))
        counts.append(abs(len(found.speakers) - heard.num_speakers))
    return pool(errors).der, sum(counts) / len(counts)
