"""Figures on Triton's own /metrics; every name is defined here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_SPEAKERS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
_COUNTERS = {
    "diar_recordings_total": "Recordings answered, by model and outcome (ok, or the error's word)",
    "diar_audio_seconds_total": "Seconds of audio diarized, by model",
    "diar_blocks_total": "Blocks answered by a diar_nn, by outcome (ok, or the error's word)",
    "diar_blocks_lost_total": "Blocks that a diar_nn gave no answer to and that were sent again",
}
_GAUGES = {
    "diar_blocks_in_flight": "Blocks on their way to a diar_nn, by the calling instance",
    "diar_breaker_open": "1 while the calling instance sends nothing to a diar_nn",
    "diar_lane": "1 for the lane that runs a network",
    "diar_streams_open": "Live recordings that go on, by the instance that has them",
}
_HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "diar_stage_seconds": ("Seconds of a recording's stages, by model and stage", _SECONDS),
    "diar_chunk_seconds": ("Seconds until a piece of a live recording was answered", _SECONDS),
    "diar_block_seconds": ("Seconds that a diar_nn took for a block", _SECONDS),
    "diar_speakers": ("Speakers found in a recording", _SPEAKERS),
}
NAMES = (*_COUNTERS, *_GAUGES, *_HISTOGRAMS)


class Metrics:
    """The figures of one instance. Processes that use the same name and labels add to the same figure."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}
        self._metrics: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Increase a counter."""
        self._metric(name, labels).increment(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._metric(name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a histogram."""
        self._metric(name, labels).observe(value)

    def _metric(self, name: str, labels: Mapping[str, str]) -> Any:
        key = (name, tuple(sorted(labels.items())))
        if key not in self._metrics:
            if name not in self._families:
                self._families[name] = _family(name)
            buckets = {"buckets": list(_HISTOGRAMS[name][1])} if name in _HISTOGRAMS else {}
            self._metrics[key] = self._families[name].Metric(labels=dict(labels), **buckets)
        return self._metrics[key]


def _family(name: str) -> Any:
    kind = pb_utils.MetricFamily
    if name in _COUNTERS:
        return kind(name=name, description=_COUNTERS[name], kind=kind.COUNTER)
    if name in _GAUGES:
        return kind(name=name, description=_GAUGES[name], kind=kind.GAUGE)
    return kind(name=name, description=_HISTOGRAMS[name][0], kind=kind.HISTOGRAM)
