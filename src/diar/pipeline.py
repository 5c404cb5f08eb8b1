"""From samples to speaker turns: the table of contents, without any I/O.

The BLS model, the client's block mode and an in-process run share every line of it; they differ in the
``RunBlock`` functions that they hand in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diar.audio import check_samples
from diar.clustering import LocalSpeakers, cluster
from diar.errors import InternalError
from diar.options import Options
from diar.powerset import decode_classes, expand_classes, local_log_odds
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Block, Samples, plan_blocks, take_span
from diar.stitch import stitch

Stage = Callable[[str], AbstractContextManager[object]]
Progress = Callable[[int, int], None]  # blocks done, blocks in all


@dataclass(frozen=True)
class BlockResult:
    """What ``diar_nn_g<i>`` answers for one block of n windows.

    logits: (window, frame, klass) float32 log-probabilities. embeddings, pure_embeddings: (window,
    local_speaker, dim) float32, zero rows where there is too little speech or the variant has none.
    speech: (window, local_speaker) float32 clean seconds. lanes: of segmentation and of embedding.
    """

    logits: npt.NDArray[np.float32]
    embeddings: npt.NDArray[np.float32]
    speech: npt.NDArray[np.float32]
    pure_embeddings: npt.NDArray[np.float32]
    lanes: tuple[str, str]


RunBlock = Callable[[npt.NDArray[np.float32]], Awaitable[BlockResult]]


class Recording:
    """Collects the block results of one recording, in any order, and turns them into speaker turns.

    Keeps one byte per frame and the rows of active local speakers with one byte per frame each, never a block
    result itself.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._classes: dict[int, npt.NDArray[np.uint8]] = {}
        self._log_odds: dict[int, npt.NDArray[np.uint8]] = {}
        self._rows: dict[int, LocalSpeakers] = {}
        self._lanes: set[tuple[str, str]] = set()

    def add(self, block: Block, result: BlockResult) -> None:
        """Take what is needed of a block's result; InternalError if its shapes are not the profile's."""
        _check_result(block, result, self._profile)
        classes = decode_classes(result.logits)
        activity = expand_classes(classes, self._profile.geometry)
        self._classes[block.index] = classes
        self._rows[block.index] = rows = LocalSpeakers.of_block(
            block.first_window,
            activity,
            result.embeddings,
            result.pure_embeddings,
            result.speech,
        )
        log_odds = local_log_odds(result.logits, self._profile.geometry)
        self._log_odds[block.index] = log_odds[rows.window - block.first_window, :, rows.slot]
        self._lanes.add(result.lanes)

    def finish(self, num_samples: int, options: Options, stage: Stage = nullcontext) -> Diarization:
        """Cluster, assign and stitch what was added; the blocks must cover ``num_samples`` samples."""
        geometry = self._profile.geometry
        order = sorted(self._classes)
        planned = [(block.index, block.num_windows) for block in plan_blocks(num_samples, geometry)]
        if not planned or [(index, len(self._classes[index])) for index in order] != planned:
            raise InternalError("E_INTERNAL_BLOCKS", f"blocks {order} do not cover {num_samples} samples")
        classes = np.concatenate([self._classes[index] for index in order])
        rows = LocalSpeakers.concatenate([self._rows[index] for index in order])
        log_odds = np.concatenate([self._log_odds[index] for index in order])
        with stage("clustering"):
            clustering = cluster(rows, classes, self._profile, options.bounds)
        with stage("stitching"):
            stitched = stitch(classes, rows, log_odds, clustering, num_samples, geometry)
        return Diarization(
            num_samples=num_samples,
            profile=self._profile.name,
            lanes=_name_lanes(self._lanes),
            requested=options.requested,
            note=_note(len(stitched.speakers), options, clustering.note),
            turns=stitched.turns,
            exclusive_turns=stitched.exclusive_turns,
            speakers=stitched.speakers,
            embeddings=clustering.centroids[stitched.order].astype(np.float32),
            file_id=options.file_id,
        )


async def diarize(
    samples: Samples,
    profile: Profile,
    slots: Sequence[RunBlock],
    options: Options | None = None,
    progress: Progress = lambda done, total: None,
    stage: Stage = nullcontext,
) -> Diarization:
    """Diarize one recording.

    samples: (samples,) 16 kHz mono, float32 in [-1, 1] or int16. slots: one function per block that may be
    in flight; each runs one block at a time, so two slots of one model keep two blocks in flight there.
    stage: called with a stage's name, gives a context to run it in (a stopwatch, say).

    Raises InvalidAudio for samples that are none, and whatever a slot raises (the other slots are
    cancelled).
    """
    check_samples(samples)
    options = options or Options()
    blocks = plan_blocks(len(samples), profile.geometry)
    recording = Recording(profile)
    with stage("blocks"):
        await _run_blocks(samples, blocks, slots, recording, progress)
    return recording.finish(len(samples), options, stage)


async def _run_blocks(
    samples: Samples,
    blocks: list[Block],
    slots: Sequence[RunBlock],
    recording: Recording,
    progress: Progress,
) -> None:
    """Every slot takes the next block as soon as it is free; the first failure ends all of them."""
    waiting = iter(blocks)
    done = 0

    async def work(run: RunBlock, waiting: Iterator[Block]) -> None:
        nonlocal done
        for block in waiting:
            recording.add(block, await run(take_span(samples, block)))
            done += 1
            progress(done, len(blocks))

    tasks = [asyncio.ensure_future(work(run, waiting)) for run in slots]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check_result(block: Block, result: BlockResult, profile: Profile) -> None:
    geometry, n = profile.geometry, block.num_windows
    vectors = (n, geometry.local_speakers, profile.embedding.dim)
    for name, array, shape in [
        ("LOGITS", result.logits, (n, geometry.frames, geometry.num_classes)),
        ("EMBEDDINGS", result.embeddings, vectors),
        ("SPEECH", result.speech, vectors[:2]),
        ("PURE_EMBEDDINGS", result.pure_embeddings, vectors),
    ]:
        if array.shape != shape:
            raise InternalError("E_INTERNAL_SHAPE", f"{name}: got {array.shape}, expected {shape}")
    step = profile.pure_step(n)
    pure = np.flatnonzero(result.pure_embeddings.any(axis=(1, 2))).tolist()
    if stray := [window for window in pure if not step or window % step]:
        expected = f"in every {step}. at most" if step else "none"
        raise InternalError("E_INTERNAL_PURE", f"got pure embeddings in windows {stray}, expected {expected}")


def _name_lanes(lanes: set[tuple[str, str]]) -> dict[str, str]:
    """The lane of each network; lanes that differ between blocks are joined by ``+``.

    >>> _name_lanes({("exact", "exact"), ("exact", "openvino:fp32")})
    {'segmentation': 'exact', 'embedding': 'exact+openvino:fp32'}
    """
    return {
        network: "+".join(sorted({names[position] for names in lanes}))
        for position, network in enumerate(("segmentation", "embedding"))
    }


def _note(num_speakers: int, options: Options, reason: str) -> str:
    """Why a wish was not met; "" if it was, or if there was none.

    >>> _note(0, Options(), "there is no speech"), _note(0, Options(num_speakers=2), "there is no speech")
    ('', 'found 0 of 2 speakers: there is no speech')
    """
    least, most = options.num_speakers or options.min_speakers or 0, options.bounds[1]
    if num_speakers < least:
        return (
            f"found {num_speakers} of {least} speakers: {reason or 'the others were never the most active'}"
        )
    if most is not None and num_speakers > most:
        return f"found {num_speakers} speakers, more than {most}: {reason}"
    return ""
