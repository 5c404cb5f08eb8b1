"""The whole path in this process, without a server: for tests and measurements."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt

from diar.block import BlockRunner
from diar.options import Options
from diar.pipeline import BlockResult, Progress, Stage, diarize
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Samples


def diarize_local(
    samples: Samples,
    profile: Profile,
    runner: BlockRunner,
    options: Options | None = None,
    progress: Progress = lambda done, total: None,
    stage: Stage = nullcontext,
) -> Diarization:
    """Diarize one recording with a runner of this process, block after block; see ``pipeline.diarize``."""

    async def run(span: npt.NDArray[np.float32]) -> BlockResult:
        return runner.run(span)

    return asyncio.run(diarize(samples, profile, [run], options, progress, stage))
