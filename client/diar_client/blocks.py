"""Block mode: the client cuts the recording, sends its blocks to the networks and does the rest itself.

The server then holds no more than the blocks in flight, whatever the recording's length.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from diar.audio import check_samples
from diar.errors import InvalidAudio
from diar.options import Options
from diar.pipeline import BlockResult, Progress, RunBlock, diarize
from diar.profile import Profile
from diar.result import Diarization
from diar.spans import Samples
from diar.stopwatch import Stopwatch
from diar.tensors import BLOCK_OUTPUTS, EMBEDDINGS, LANES, LOGITS, PURE_EMBEDDINGS, SPAN, SPEECH
from diar_client.connection import Connection
from diar_client.retry import PATIENT, Deadline, Patience, persist
from diar_client.served import find_nn_models, learn_profile
from diar_client.session import Session

IN_FLIGHT = 2  # blocks per diar_nn: one computes while the next one is on its way


class BlockClient(Session):
    """Runs single blocks on one ``diar_nn_g<i>``. See ``Session``.

    model: its name; None takes the first that is ready.
    """

    def __init__(
        self,
        url: str = "grpc://127.0.0.1:8001",
        *,
        model: str | None = None,
        timeout_s: float | None = 600.0,
        patience: Patience = PATIENT,
    ) -> None:
        super().__init__(url, timeout_s=timeout_s, patience=patience)
        self._wanted = model
        self._found: tuple[str, Profile] | None = None

    @property
    def profile(self) -> Profile:
        """What the model serves, asked once. Raises ServerRefused, ServerUnreachable."""
        return self._find()[1]

    def run(self, span: npt.NDArray[np.float32]) -> BlockResult:
        """Run one block.

        span: (samples,) float32 in [-1, 1], ``window + (n - 1) * hop`` long for a block of n windows.

        Raises InvalidAudio for another length or type; Overloaded, NetsUnavailable, ServerUnreachable after
        retries; ServerRefused; Cancelled when ``timeout_s`` is over.
        """
        if span.dtype != np.float32:
            raise InvalidAudio("E_SPAN_DTYPE", f"{SPAN}: got {span.dtype}, expected float32")
        check_samples(span, what=SPAN)
        deadline = Deadline(self._timeout_s)
        model, _ = self._find()
        return self._run(_call(nn_slot(self._connection, model, deadline, self._patience), span))

    def _find(self) -> tuple[str, Profile]:
        if self._found is None:
            model = self._wanted or self._run(find_nn_models(self._connection))[0]
            self._found = model, self._run(learn_profile(self._connection, model))
        return self._found


async def _call(slot: RunBlock, span: npt.NDArray[np.float32]) -> BlockResult:
    return await slot(span)


async def diarize_in_blocks(
    connection: Connection,
    samples: Samples,
    options: Options,
    deadline: Deadline,
    patience: Patience,
    progress: Progress,
) -> Diarization:
    """Diarize one recording on every ``diar_nn_g<i>`` that is ready; the same bytes as the model ``diarize``.

    samples: (samples,) 16 kHz mono, float32 in [-1, 1] or int16. progress is called in this event loop.
    """
    models = await find_nn_models(connection)
    profile = await learn_profile(connection, models[0])  # one repository: the others serve the same
    slots = [nn_slot(connection, model, deadline, patience) for _ in range(IN_FLIGHT) for model in models]
    stopwatch = Stopwatch()
    with stopwatch("total"):
        result = await diarize(samples, profile, slots, options, progress, stopwatch)
    return replace(result, timings=stopwatch.seconds) if options.timings else result


def nn_slot(connection: Connection, model: str, deadline: Deadline, patience: Patience) -> RunBlock:
    """A slot of ``pipeline.diarize``: runs one block at a time on ``model``, retrying what may succeed."""

    async def run(span: npt.NDArray[np.float32]) -> BlockResult:
        return await persist(
            lambda left_s: _run_block(connection, model, span, left_s), deadline, patience, connection.url
        )

    return run


async def _run_block(
    connection: Connection, model: str, span: npt.NDArray[np.float32], timeout_s: float | None
) -> BlockResult:
    outputs = await connection.infer(model, {SPAN: span}, BLOCK_OUTPUTS, timeout_s=timeout_s)
    segmentation_lane, embedding_lane = (lane.decode() for lane in outputs[LANES])
    return BlockResult(
        outputs[LOGITS],
        outputs[EMBEDDINGS],
        outputs[SPEECH],
        outputs[PURE_EMBEDDINGS],
        (segmentation_lane, embedding_lane),
    )
