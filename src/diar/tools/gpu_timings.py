"""Milliseconds of lanes and blocks, by CUDA events on a GPU and by the clock on a CPU."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from diar.errors import SetupError
from diar.lanes.choose import choose_lane
from diar.lanes.lane import Lane
from diar.lanes.shapes import input_shapes
from diar.network_files import Network
from diar.networks.campplus import load_campplus
from diar.networks.load import segmentation_module
from diar.pipeline import BlockResult, diarize
from diar.profile import SAMPLE_RATE
from diar.tools.gpu_checks import Bench, Figures

_REPEATS = {"cuda": 10, "cpu": 2}
_RECORDINGS = {"cuda": (3600.0, 8), "cpu": (15.0, 2)}  # seconds of each, and how many at once
_LANES = ("exact", "tensorrt:fp32", "tensorrt:fp16")


def lane_timings(bench: Bench) -> Figures:
    """Median milliseconds of each lane for the largest input of its network, and of a whole block.

    A lane that cannot be opened has its reason instead.
    """
    figures: Figures = {}
    for name in _LANES if bench.device.type == "cuda" else _LANES[:1]:
        for network in ("segmentation", "trunk"):
            try:
                lane = open_lane(bench, network, name)
            except SetupError as err:
                figures[f"{name} {network}"] = err.text
                continue
            inputs = torch.randn(input_shapes(bench.profile, network).best, device=bench.device)
            figures[f"{name} {network} ms"] = milliseconds(bench.device, partial(lane.run, inputs))
            lane.close()
        try:
            with bench.runner(name) as runner:
                span = bench.span()
                begin = time.perf_counter()
                runner.run(span)
                figures[f"{name} first block ms"] = round(1e3 * (time.perf_counter() - begin), 2)
                figures[f"{name} block ms"] = wall_milliseconds(bench.device, partial(runner.run, span))
        except SetupError:
            pass  # the reason stands above
    return figures


def recording_timings(bench: Bench) -> Figures:
    """Seconds per hour of audio of whole recordings, of one and of several at once on one runner.

    The blocks of all wait for the runner in turn, as they do for a ``diar_nn``; lane ``auto``.
    """
    length_s, most = _RECORDINGS[bench.device.type]
    samples = np.resize(bench.samples, round(length_s * SAMPLE_RATE))
    figures: Figures = {}
    with bench.runner("auto") as runner, ThreadPoolExecutor(most) as pool:
        turn = threading.Lock()

        async def run(span: npt.NDArray[np.float32]) -> BlockResult:
            with turn:
                return runner.run(span)

        def whole() -> None:
            asyncio.run(diarize(samples, bench.profile, [run]))

        runner.run(bench.span())
        for at_once in (1, most):
            begin = time.perf_counter()
            for job in [pool.submit(whole) for _ in range(at_once)]:
                job.result()
            per_hour = 3600 * (time.perf_counter() - begin) / (at_once * length_s)
            figures[f"{at_once} at once: s per hour of audio"] = round(per_hour, 3)
        figures["lanes"] = " ".join(runner.lanes)
    return figures


def open_lane(bench: Bench, network: Network, wish: str) -> Lane:
    """One lane on the bench's device; SetupError as from ``choose_lane``."""
    weights = bench.profile.embedding.weights
    trunk, _ = load_campplus(bench.engines_dir / "weights" / weights.file, weights.sha256)
    module = (lambda: trunk) if network == "trunk" else segmentation_module(bench.profile, bench.engines_dir)
    return choose_lane(wish, network, module, bench.profile, bench.engines_dir, bench.device, 0)


def milliseconds(device: torch.device, action: Callable[[], object]) -> float:
    """Median time of ``action`` on a stream of its own, behind three runs that do not count."""
    if device.type != "cuda":
        return wall_milliseconds(device, action)
    times: list[float] = []
    with torch.inference_mode(), _own_stream(device) as stream:
        for _ in range(3):
            action()
        for _ in range(_REPEATS[device.type]):
            begin, end = _event(), _event()
            begin.record(stream)
            action()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end))
    return round(statistics.median(times), 3)


def wall_milliseconds(device: torch.device, action: Callable[[], object]) -> float:
    """Median time of ``action`` by the clock, behind one run that does not count."""
    times = []
    with torch.inference_mode():
        action()
        for _ in range(_REPEATS[device.type]):
            begin = time.perf_counter()
            action()
            times.append(1e3 * (time.perf_counter() - begin))
    return round(statistics.median(times), 3)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch does not annotate it


@contextmanager
def _own_stream(device: torch.device) -> Iterator[torch.cuda.Stream]:
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch does not annotate it
    with torch.cuda.stream(stream):
        yield stream
    stream.synchronize()
