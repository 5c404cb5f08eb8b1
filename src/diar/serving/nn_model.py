"""``diar_nn_g<i>``: runs the networks on one block per request, on one GPU or on the CPU."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from diar.board import Board, Work
from diar.errors import Cancelled, InternalError, NetsUnavailable, SetupError
from diar.pipeline import BlockResult
from diar.profile import Profile, load_profile
from diar.serving.answers import check_wanted, failed, request_parameters, shown, start_logging
from diar.serving.lifeline import end_with_server
from diar.serving.metrics import Metrics
from diar.serving.settings import Instance, NetsSettings
from diar.tensors import BLOCK_OUTPUTS, DEADLINE, EMBEDDINGS, LANES, LOGITS, PURE_EMBEDDINGS, SPAN, SPEECH

log = logging.getLogger(__name__)


class Runner(Protocol):
    """Runs blocks; ``diar.block.BlockRunner``, or a test's own."""

    def run(self, span: npt.NDArray[np.float32], embeddings: bool = True, spans: bool = True) -> BlockResult:
        """Run one block; without embeddings only its logits, without spans only pure embeddings of them."""

    def close(self) -> None:
        """Give back the networks."""


def block_runner(profile: Profile, settings: NetsSettings, instance: Instance) -> Runner:
    """The BlockRunner that the settings ask for."""
    from diar.block import BlockRunner  # imports torch, which must not happen before the device is set

    return BlockRunner(
        profile,
        (instance.repository / settings.engines_dir).resolve(),
        instance.device,
        segmentation_lane=settings.segmentation_lane,
        embedding_lane=settings.embedding_lane,
        threads=settings.threads,
    )


def _set_device(ordinal: int) -> None:
    """Make a GPU the one of this process, before anything else touches CUDA.

    Triton itself sets none in the stub. Raises SetupError (E_DEVICE) if there is no such GPU.
    """
    import torch  # only here, as in block_runner: nothing may touch CUDA before

    try:
        torch.cuda.set_device(ordinal)
    except (RuntimeError, AssertionError, AttributeError) as err:  # the latter two from a torch without CUDA
        why = str(err).strip().partition("\n")[0]
        raise SetupError("E_DEVICE", f"GPU {ordinal}: {why}; {torch.cuda.device_count()} GPUs here") from err


class TritonPythonModel:
    """Triton's view of a BlockRunner. make_runner: what makes it."""

    def __init__(
        self, make_runner: Callable[[Profile, NetsSettings, Instance], Runner] = block_runner
    ) -> None:
        self._make_runner = make_runner

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the networks; SetupError says what is missing or wrong."""
        instance = Instance.from_arguments(args)
        if instance.device != "cpu":
            _set_device(int(args["model_instance_device_id"]))
        self._model = args["model_name"]
        start_logging(self._model)
        settings = instance.settings(NetsSettings)
        self._profile = load_profile(settings.profile)
        self._metrics, board = Metrics(), Board.find()
        self._work = board.work(self._model) if board else Work(None)
        self._runner = self._make_runner(self._profile, settings, instance)
        end_with_server()

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """One answer per request, in order; a bad request never costs its neighbour."""
        return [self._respond(request) for request in requests]

    def finalize(self) -> None:
        """Give back the networks and their memory."""
        self._runner.close()

    def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        start = time.perf_counter()
        with self._work.job():
            try:
                check_wanted(request)
                check_deadline(request)
                response, outcome = self._run(request), "ok"
            except Exception as err:
                response, outcome = failed_block(err)
        self._metrics.add("diar_blocks_total", model=self._model, outcome=outcome)
        if outcome == "ok":
            self._metrics.observe("diar_block_seconds", time.perf_counter() - start, model=self._model)
        return response

    def _run(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        span = pb_utils.get_input_tensor_by_name(request, SPAN).as_numpy()
        wanted = [name for name in BLOCK_OUTPUTS if name in request.requested_output_names()]
        embeddings = any(name not in (LOGITS, LANES) for name in wanted)
        try:
            result = self._runner.run(span, embeddings=embeddings, spans=EMBEDDINGS in wanted)
        except Exception as err:
            if not is_out_of_memory(err):
                raise
            log.warning("out of GPU memory, trying once more: %s", err)
            free_memory()
            result = self._runner.run(span, embeddings=embeddings, spans=EMBEDDINGS in wanted)
        outputs = block_outputs(result, self._profile)
        for network, lane in zip(("segmentation", "embedding"), result.lanes, strict=True):
            self._metrics.set("diar_lane", 1.0, model=self._model, network=network, lane=lane)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, outputs[name]) for name in wanted])


def check_deadline(request: pb_utils.InferenceRequest) -> None:
    """Raise Cancelled if the caller said until when it waits, and that is over."""
    deadline = request_parameters(request).get(DEADLINE)
    if isinstance(deadline, int) and deadline < time.time() * 1000:
        raise Cancelled("E_CANCELLED_DEADLINE", "the block's turn came after its caller's deadline")


def is_out_of_memory(error: Exception) -> bool:
    """Whether it is torch.cuda.OutOfMemoryError, without importing torch for it."""
    return type(error).__name__ == "OutOfMemoryError"


def free_memory() -> None:
    """Give back what torch keeps of the GPU's memory for later."""
    gc.collect()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


def failed_block(error: Exception) -> tuple[pb_utils.InferenceResponse, str]:
    """The answer to a block that raised ``error``, and its outcome for the metrics.

    Not in the frame that caught it: a variable there would keep that frame alive through the traceback, and
    with it the block in shared memory.
    """
    error = device_error(error)
    return failed(error), shown(error).word


def device_error(error: Exception) -> Exception:
    """``error``, or NetsUnavailable for one that says that the GPU is out of order or out of memory.

    torch has no class for the former; after it nothing runs any more in this process.
    """
    if is_out_of_memory(error):
        return NetsUnavailable("E_NETS_MEMORY", "the GPU's memory is used up")
    if isinstance(error, RuntimeError) and str(error).startswith("CUDA error"):
        return NetsUnavailable("E_NETS_DEVICE", str(error).splitlines()[0])
    return error


def block_outputs(result: BlockResult, profile: Profile) -> dict[str, npt.NDArray[np.generic]]:
    """The output tensors of a block by name; InternalError unless shapes and values are as they must be."""
    windows = len(result.logits)
    geometry = profile.geometry
    vectors = (windows, geometry.local_speakers, profile.embedding.dim)
    expected: dict[str, tuple[npt.NDArray[np.float32], tuple[int, ...]]] = {
        LOGITS: (result.logits, (windows, geometry.frames, geometry.num_classes)),
        EMBEDDINGS: (result.embeddings, vectors),
        SPEECH: (result.speech, vectors[:2]),
        PURE_EMBEDDINGS: (result.pure_embeddings, vectors),
    }
    for name, (array, shape) in expected.items():
        if array.shape != shape or array.dtype != np.float32:
            raise InternalError(
                "E_INTERNAL_SHAPE", f"{name}: got {array.dtype} {array.shape}, expected float32 {shape}"
            )
        if not np.isfinite(array).all():
            raise InternalError("E_INTERNAL_NONFINITE", f"{name}: got NaN or infinity from a network")
    lanes = np.array([lane.encode() for lane in result.lanes], dtype=np.object_)
    return {**{name: array for name, (array, _) in expected.items()}, LANES: lanes}
