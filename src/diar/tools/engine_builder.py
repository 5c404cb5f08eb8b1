"""One plan from one ONNX file, by TensorRT's builder: every answer looked at, every failure one error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diar.artifacts import replacing
from diar.errors import SetupError
from diar.lanes.tensorrt_api import Builder, TensorRt
from diar.lanes.tensorrt_module import messages_of
from diar.plans import Flavour, Shapes

_PROGRESS_EVERY_S = 5.0


@dataclass(frozen=True)
class Order:
    """What to build. workspace_bytes: most memory that a kernel may use. timing_cache: None uses none."""

    onnx: Path
    shapes: Shapes
    flavour: Flavour
    capability: str
    workspace_bytes: int
    timing_cache: Path | None


def build_plan(order: Order, module: TensorRt, progress: Callable[[str], None]) -> bytes:
    """Build a plan, strongly typed and without TF32: its precisions are those of the ONNX file.

    progress: is told, every few seconds, what is being done.

    Raises SetupError: E_BUILD_OPERATOR (names node and operator), E_BUILD_SHAPES (the file does not take
    these inputs), E_BUILD_GPU (the flavour cannot build for it), E_BUILD (anything else that TensorRT says).
    """
    messages = messages_of(module)
    what = f"{order.flavour} {module.__version__}"
    builder, network = parse_onnx(order.onnx, order.flavour, module)
    config = builder.create_builder_config()
    if order.flavour == "tensorrt_rtx":
        _set_target(config, order.capability, module)
    config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, order.workspace_bytes)
    config.clear_flag(module.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    profile.set_shape(_input_name(network, order), order.shapes.least, order.shapes.best, order.shapes.most)
    if config.add_optimization_profile(profile) < 0:
        raise SetupError("E_BUILD_SHAPES", f"{what} does not take {order.shapes}: {messages.last_error}")
    if order.timing_cache:
        _load_timing_cache(config, order.timing_cache)
    with _monitor(module, progress) as monitor:
        config.progress_monitor = monitor
        plan = builder.build_serialized_network(network, config)
        config.progress_monitor = None
    if plan is None:
        raise SetupError("E_BUILD", f"{what} cannot build {order.onnx}: {messages.last_error}")
    if order.timing_cache:
        with replacing(order.timing_cache) as draft:
            draft.write_bytes(memoryview(config.get_timing_cache().serialize()))
    return bytes(plan)


def parse_onnx(onnx: Path, flavour: Flavour, module: TensorRt) -> tuple[Builder, Any]:
    """A builder, and its network as the ONNX file says it.

    Raises SetupError: E_BUILD (TensorRT does not start, as the full one without a GPU), E_BUILD_OPERATOR.
    """
    messages = messages_of(module)
    what = f"{flavour} {module.__version__}"
    try:
        builder = module.Builder(messages.logger)
        network = builder.create_network(1 << int(module.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = module.OnnxParser(network, messages.logger)
    except (TypeError, RuntimeError) as err:  # a factory that gives nothing, as on a machine without a GPU
        raise SetupError("E_BUILD", f"{what} does not start: {messages.last_error}") from err
    if not parser.parse_from_file(str(onnx)):
        error = parser.get_error(0)
        operator = error.node_operator()
        node = f"node {error.node_name()!r}, operator {operator}" if operator else "it"
        why = f"{error.code().name}: {error.desc()}"
        raise SetupError("E_BUILD_OPERATOR", f"{what} cannot parse {onnx}: {node} ({why})")
    return builder, network


def targets(module: TensorRt) -> list[str]:
    """The capabilities that TensorRT for RTX builds for on any machine, as ``sm75``."""
    return [name.lower() for name in module.ComputeCapability.__members__ if name.startswith("SM")]


def _set_target(config: Any, capability: str, module: TensorRt) -> None:
    if capability not in targets(module):
        offered = ", ".join(targets(module))
        what = f"tensorrt_rtx {module.__version__} has no target {capability}, it has {offered}"
        raise SetupError("E_BUILD_GPU", f"{what}; use --flavour tensorrt on a machine with that GPU")
    config.num_compute_capabilities = 1
    if not config.set_compute_capability(getattr(module.ComputeCapability, capability.upper()), 0):
        raise SetupError("E_BUILD_GPU", f"tensorrt_rtx {module.__version__} refuses the target {capability}")


def _input_name(network: Any, order: Order) -> str:
    """Name of the network's only input, whose dimensions must be free or as the shapes say."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    found = [(tensor.name, tuple(tensor.shape)) for tensor in inputs]
    if len(found) == 1:
        name, dims = found[0]
        fixed = zip(dims, order.shapes.least, order.shapes.most, strict=False)
        if len(dims) == len(order.shapes.most) and all(dim in (-1, *both) for dim, *both in fixed):
            return str(name)
    raise SetupError("E_BUILD_SHAPES", f"{order.onnx} takes {found}, expected one input of {order.shapes}")


def _load_timing_cache(config: Any, file: Path) -> None:
    cache = config.create_timing_cache(file.read_bytes() if file.is_file() else b"")
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        raise SetupError("E_BUILD", f"{file} is no timing cache of this TensorRT and GPU; remove it")


@contextmanager
def _monitor(module: TensorRt, progress: Callable[[str], None]) -> Iterator[object]:
    """An IProgressMonitor, and a thread that tells every few seconds what it heard last."""
    base: Any = module.IProgressMonitor
    begin = time.monotonic()
    done = threading.Event()

    class Monitor(base):  # type: ignore[misc]  # which base it has is known at run time only
        def __init__(self) -> None:
            base.__init__(self)
            self.heard = "starting"
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._steps[phase_name] = num_steps
            self.heard = phase_name

        def step_complete(self, phase_name: str, step: int) -> bool:
            self.heard = f"{phase_name}, {step + 1} of {self._steps.get(phase_name, step + 1)}"
            return True

        def phase_finish(self, phase_name: str) -> None:
            self._steps.pop(phase_name, None)

    monitor = Monitor()

    def tell() -> None:
        while not done.wait(_PROGRESS_EVERY_S):
            progress(f"{time.monotonic() - begin:.0f} s, {monitor.heard}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield monitor
    finally:
        done.set()
        teller.join()
