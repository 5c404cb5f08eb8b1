"""Calling the ``diar_nn`` models from a model that takes recordings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from diar.errors import NetsUnavailable, parse_error
from diar.pipeline import BlockResult, RunBlock
from diar.tensors import BLOCK_OUTPUTS, SPAN

log = logging.getLogger(__name__)


def block_slots(models: Sequence[str], in_flight: int, check: Callable[[], None]) -> list[RunBlock]:
    """``in_flight`` slots for each model, those of one model not beside each other.

    check: called before each block; what it raises ends the recording.
    """
    return [_slot(model, check) for _ in range(in_flight) for model in models]


def _slot(model: str, check: Callable[[], None]) -> RunBlock:
    async def run(span: npt.NDArray[np.float32]) -> BlockResult:
        check()
        return await run_block(model, span)

    return run


async def run_block(model: str, span: npt.NDArray[np.float32]) -> BlockResult:
    """Run one block on ``model``.

    A call cannot be stopped once it is made. If this task is cancelled it waits for the call's end, so that
    no more blocks are ever in flight than there are slots.

    Raises the model's own error, or NetsUnavailable if Triton could not get an answer from it.
    """
    request = pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=list(BLOCK_OUTPUTS),
        inputs=[pb_utils.Tensor(SPAN, span)],
    )
    call = asyncio.ensure_future(request.async_exec())
    try:
        response = await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise
    if response.has_error():
        raise callee_error(model, response.error().message())
    logits, embeddings, speech, pure, lanes = (
        pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in BLOCK_OUTPUTS
    )
    segmentation_lane, embedding_lane = (lane.decode() for lane in lanes)
    return BlockResult(logits, embeddings, speech, pure, (segmentation_lane, embedding_lane))


def callee_error(model: str, message: str) -> Exception:
    """The error to report when ``model`` answered with ``message`` (its code is lost on the way)."""
    if error := parse_error(message):
        return error
    log.warning("%s: %s", model, message)
    return NetsUnavailable("E_NETS_UNAVAILABLE", f"{model} cannot take the block now; try again")
