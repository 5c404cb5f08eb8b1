"""What must hold on a GPU, as functions that measure: run by ``scripts/gpu_check`` and by tests/gpu.

Each check takes a Bench and answers with its figures. It raises CheckFailed with the figure that is wrong, or
CheckSkipped with the reason why it cannot be made here.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from diar.block import BlockRunner
from diar.errors import SetupError
from diar.pipeline import BlockResult
from diar.profile import Profile

Figures = dict[str, float | int | str]
Check = Callable[["Bench"], Figures]

_MIB = 1 << 20
_OUTPUTS = ("logits", "embeddings", "speech", "pure_embeddings")
_BUSY_CYCLES = 3_000_000_000  # of the GPU's clock: between one and two seconds


class CheckFailed(Exception):
    """A figure is not as it must be; the message names both."""


class CheckSkipped(Exception):
    """The check cannot be made here; the message says why."""


@dataclass(frozen=True)
class Bench:
    """What checks work with. engines_dir: engines/build. samples: at least a whole block, float32."""

    profile: Profile
    engines_dir: Path
    device: torch.device
    samples: npt.NDArray[np.float32]

    @contextmanager
    def runner(self, lane: str = "exact", device: str | None = None) -> Iterator[BlockRunner]:
        """A BlockRunner, closed behind the block."""
        where = device or str(self.device)
        runner = BlockRunner(
            self.profile, self.engines_dir, where, segmentation_lane=lane, embedding_lane=lane
        )
        try:
            yield runner
        finally:
            runner.close()

    def span(self, num_windows: int | None = None, start: int = 0) -> npt.NDArray[np.float32]:
        """Samples of a block of ``num_windows`` (default: a full one), read round the end."""
        length = self.profile.geometry.span_samples(num_windows)
        return np.resize(np.roll(self.samples, -start), length)

    @property
    def sizes(self) -> list[int]:
        """Numbers of windows to try: one, a few, a full block."""
        most = self.profile.geometry.windows_per_block
        return sorted({1, min(5, most), most})

    def need_cuda(self) -> None:
        """Raise CheckSkipped on a CPU."""
        if self.device.type != "cuda":
            raise CheckSkipped("needs a CUDA device")


def exact_equals_the_cpu(bench: Bench) -> Figures:
    """The exact lane gives on this device what it gives on the CPU, up to the order of sums."""
    with bench.runner() as here, bench.runner(device="cpu") as cpu:
        pairs = [(here.run(bench.span(size)), cpu.run(bench.span(size))) for size in bench.sizes]
    return check_near(pairs, changed_ppm=200, cosine=0.9999)


def tensorrt_is_near_exact(bench: Bench) -> Figures:
    """The TensorRT lanes give what the exact lane gives, the same bytes in any order of block sizes."""
    with _tensorrt(bench) as fast, bench.runner() as exact:
        figures: Figures = {"lane": fast.lanes[0]}
        first = [fast.run(bench.span(size)) for size in bench.sizes]
        again = [fast.run(bench.span(size)) for size in reversed(bench.sizes)][::-1]
        check_same(first, again)
        pairs = [(got, exact.run(bench.span(size))) for got, size in zip(first, bench.sizes, strict=True)]
    return figures | check_near(pairs, changed_ppm=2_000, cosine=0.999)


def repeats_its_bytes(bench: Bench) -> Figures:
    """The same block gives the same bytes, whatever was run before it."""
    sizes = [*bench.sizes, *bench.sizes[::-1]]
    with bench.runner() as runner:
        first, again = ([runner.run(bench.span(size)) for size in sizes] for _ in range(2))
    check_same(first, again)
    return {"blocks": 2 * len(sizes)}


def runs_on_one_stream_of_its_own(bench: Bench) -> Figures:
    """Every PyTorch module of a block runs on one stream, and that is not the default stream."""
    bench.need_cuda()
    streams: list[int] = []

    def note(module: nn.Module, inputs: object) -> None:
        streams.append(torch.cuda.current_stream(bench.device).cuda_stream)

    with bench.runner() as runner:
        hook = nn.modules.module.register_module_forward_pre_hook(note)
        try:
            runner.run(bench.span())
        finally:
            hook.remove()
    default = torch.cuda.default_stream(bench.device).cuda_stream
    if len(set(streams)) != 1 or default in streams:
        raise CheckFailed(
            f"modules ran on {len(set(streams))} streams, the default one: {default in streams}"
        )
    return {"calls": len(streams)}


def ignores_the_default_stream(bench: Bench) -> Figures:
    """While the default stream is busy a block comes out the same, and does not wait for it."""
    bench.need_cuda()
    with bench.runner() as runner:
        alone = [runner.run(bench.span()) for _ in range(2)][-1]  # the first one takes memory
        with torch.cuda.device(bench.device):
            torch.cuda._sleep(_BUSY_CYCLES)  # type: ignore[no-untyped-call]  # one thread that spins
            done = torch.cuda.current_stream().record_event()
        beside = runner.run(bench.span())
        waited = done.query()
        done.synchronize()
    check_same([alone], [beside])
    if waited:
        raise CheckFailed("the block came back only after the default stream had finished")
    return {"blocks": 3}


def two_at_once_are_as_one(bench: Bench) -> Figures:
    """Two runners at work at the same time give the bytes that each gives alone."""
    spans = [bench.span(size, start) for size in bench.sizes for start in (0, 16_000)]
    results: dict[int, list[BlockResult]] = {}
    errors: list[BaseException] = []

    def work(index: int, runner: BlockRunner) -> None:
        try:
            results[index] = [runner.run(span) for span in spans]
        except BaseException as err:
            errors.append(err)

    with bench.runner() as one, bench.runner() as two:
        alone = [one.run(span) for span in spans]
        threads = [threading.Thread(target=work, args=pair) for pair in enumerate((one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    for index in results:
        check_same(alone, results[index])
    return {"blocks": 3 * len(spans)}


def gives_its_memory_back(bench: Bench) -> Figures:
    """Closing a runner frees what it took: opening another one again and again needs no more."""
    bench.need_cuda()
    left: list[int] = []
    torch.cuda.reset_peak_memory_stats(bench.device)
    for _ in range(3):
        with bench.runner() as runner:
            runner.run(bench.span())
        del runner
        left.append(_allocated(bench.device))
    figures: Figures = {
        "peak_mib": torch.cuda.max_memory_allocated(bench.device) // _MIB,
        "left_mib": left[-1] // _MIB,
    }
    if left[-1] - left[0] > 16 * _MIB:
        raise CheckFailed(
            f"after three runners {figures['left_mib']} MiB are left, {left[0] // _MIB} after one"
        )
    return figures


def tensorrt_gives_its_memory_back(bench: Bench) -> Figures:
    """The same for the TensorRT lanes, whose memory PyTorch does not count."""
    free: list[int] = []
    for _ in range(3):
        with _tensorrt(bench) as runner:
            runner.run(bench.span())
        del runner
        _allocated(bench.device)
        torch.cuda.empty_cache()
        free.append(torch.cuda.mem_get_info(bench.device)[0])
    lost_mib = (free[0] - free[-1]) // _MIB
    if lost_mib > 64:
        raise CheckFailed(f"opening the lanes twice more has cost {lost_mib} MiB, expected at most 64")
    return {"lost_mib": lost_mib}


@contextmanager
def _tensorrt(bench: Bench) -> Iterator[BlockRunner]:
    bench.need_cuda()
    with ExitStack() as stack:
        try:
            runner = stack.enter_context(bench.runner("tensorrt"))
        except SetupError as err:
            raise CheckSkipped(err.text) from err
        yield runner


def check_near(
    pairs: Sequence[tuple[BlockResult, BlockResult]], *, changed_ppm: float, cosine: float
) -> Figures:
    """Figures of results against their references; CheckFailed beyond the limits.

    Embeddings are compared where the frames behind them are the same.
    """
    largest, changed, frames = 0.0, 0, 0
    cosines: list[float] = []
    for got, expected in pairs:
        largest = max(largest, float(np.abs(got.logits - expected.logits).max()))
        differs = got.logits.argmax(axis=-1) != expected.logits.argmax(axis=-1)  # (window, frame)
        changed, frames = changed + int(differs.sum()), frames + differs.size
        same = ~differs.any(axis=-1)[:, None] & (expected.speech > 0)
        cosines += _cosines(got.embeddings[same], expected.embeddings[same]).tolist()
    if 1e6 * changed / frames > changed_ppm:
        limit = f"at most {changed_ppm:g} per million"
        raise CheckFailed(f"{changed} of {frames} frames changed, expected {limit}")
    if not cosines:
        raise CheckFailed("the samples hold no speech: nothing to compare")
    if not min(cosines) >= cosine:
        raise CheckFailed(f"least cosine of embeddings {min(cosines):.6f}, expected at least {cosine}")
    return {
        "max_delta_logits": largest,
        "changed_frames_ppm": 1e6 * changed / frames,
        "min_cosine": min(cosines),
        "embeddings": len(cosines),
    }


def _cosines(one: npt.NDArray[np.float32], two: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Cosine of each row of ``one`` with that of ``two``: (rows, dim) each."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(two, axis=-1)
    cosines: npt.NDArray[np.float32] = (one * two).sum(axis=-1) / lengths
    return cosines


def check_same(first: Sequence[BlockResult], second: Sequence[BlockResult]) -> None:
    """Raise CheckFailed for the first output that is not the same to the last bit."""
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        for name in _OUTPUTS:
            if getattr(one, name).tobytes() != getattr(two, name).tobytes():
                largest = np.abs(getattr(one, name) - getattr(two, name)).max()
                raise CheckFailed(f"{name} of block {index} came out different by up to {largest:.1e}")


def _allocated(device: torch.device) -> int:
    """Bytes that PyTorch holds, without what the matrix library keeps for each stream that it has seen."""
    gc.collect()
    torch.cuda.synchronize(device)
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated(device)


CHECKS: list[Check] = [
    exact_equals_the_cpu,
    repeats_its_bytes,
    runs_on_one_stream_of_its_own,
    ignores_the_default_stream,
    two_at_once_are_as_one,
    gives_its_memory_back,
    tensorrt_is_near_exact,
    tensorrt_gives_its_memory_back,
]
