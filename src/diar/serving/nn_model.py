"""``diar_nn_g<i>``: runs the networks on one block per request, on one GPU or on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from diar.errors import InternalError
from diar.pipeline import BlockResult
from diar.profile import Profile, load_profile
from diar.serving.answers import check_wanted, failed, start_logging
from diar.serving.settings import Instance, NetsSettings
from diar.tensors import BLOCK_OUTPUTS, EMBEDDINGS, LANES, LOGITS, PURE_EMBEDDINGS, SPAN, SPEECH


class Runner(Protocol):
    """Runs blocks; ``diar.block.BlockRunner``, or a test's own."""

    def run(self, span: npt.NDArray[np.float32], embeddings: bool = True) -> BlockResult:
        """Run one block; without embeddings only its logits."""

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
            import torch  # only here: the device must be set before anything else touches CUDA

            torch.cuda.set_device(int(args["model_instance_device_id"]))
        start_logging(args["model_name"])
        settings = instance.settings(NetsSettings)
        self._profile = load_profile(settings.profile)
        self._runner = self._make_runner(self._profile, settings, instance)

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """One answer per request, in order; a bad request never costs its neighbour."""
        return [self._respond(request) for request in requests]

    def finalize(self) -> None:
        """Give back the networks and their memory."""
        self._runner.close()

    def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        try:
            check_wanted(request)
            return self._run(request)
        except Exception as err:
            return failed(err)

    def _run(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        span = pb_utils.get_input_tensor_by_name(request, SPAN).as_numpy()
        wanted = [name for name in BLOCK_OUTPUTS if name in request.requested_output_names()]
        result = self._runner.run(span, embeddings=any(name not in (LOGITS, LANES) for name in wanted))
        outputs = block_outputs(result, self._profile)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, outputs[name]) for name in wanted])


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
