"""Where windows and blocks lie on the samples, and frames on a window.

Conventions, written once: a span is half-open ``[start, end)`` in samples; frame ``i`` of a window that
starts at sample ``s`` has its centre at ``s + i * frame_step + frame_field // 2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

Count = Annotated[int, msgspec.Meta(ge=1)]
Samples = npt.NDArray[np.float32] | npt.NDArray[np.int16]


class Geometry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Window, block and frame arithmetic of one profile. All lengths in samples or counts.

    >>> g = Geometry(160_000, 16_000, 32, 589, 270, 991, 3, 2)
    >>> g.span_samples(), g.num_classes, g.span_samples(1)
    (656000, 7, 160000)
    """

    window: Count
    hop: Count
    windows_per_block: Count
    frames: Count
    frame_step: Count
    frame_field: Count
    local_speakers: Count
    max_overlap: Count

    def span_samples(self, num_windows: int | None = None) -> int:
        """Samples that ``num_windows`` consecutive windows cover (default: a full block)."""
        return self.window + ((num_windows or self.windows_per_block) - 1) * self.hop

    @property
    def num_classes(self) -> int:
        """Number of powerset classes."""
        return sum(comb(self.local_speakers, size) for size in range(self.max_overlap + 1))

    def num_windows(self, num_samples: int) -> int:
        """Windows that cover ``num_samples``, the last one zero-padded.

        >>> g = Geometry(160_000, 16_000, 32, 589, 270, 991, 3, 2)
        >>> [g.num_windows(n) for n in (0, 1, 160_000, 160_001, 176_000, 176_001)]
        [0, 1, 1, 2, 2, 3]
        """
        if num_samples == 0:
            return 0
        return 1 + max(0, -(-(num_samples - self.window) // self.hop))

    def windows_of_span(self, num_samples: int) -> int | None:
        """The number of windows whose span is ``num_samples`` long; None if there is no such block."""
        extra, rest = divmod(num_samples - self.window, self.hop)
        if rest or not 0 <= extra < self.windows_per_block:
            return None
        return extra + 1

    def first_frame(self, window_index: int) -> int:
        """Index, on the recording's own grid of frames, of a window's first frame (nearest)."""
        return (window_index * self.hop + self.frame_step // 2) // self.frame_step


@dataclass(frozen=True)
class Block:
    """Consecutive windows that go to a ``diar_nn_g<i>`` in one request.

    first_window: index of its first window in the recording. start: its first sample.
    num_samples: length of its span; the samples behind the recording's end are zeros.
    """

    index: int
    first_window: int
    num_windows: int
    start: int
    num_samples: int


def plan_blocks(num_samples: int, geometry: Geometry) -> list[Block]:
    """Cut a recording into blocks; every sample lies in at least one window.

    >>> g = Geometry(10, 5, 2, 3, 2, 4, 3, 2)
    >>> [(b.first_window, b.num_windows, b.start, b.num_samples) for b in plan_blocks(21, g)]
    [(0, 2, 0, 15), (2, 2, 10, 15)]
    """
    return list(iter_blocks(geometry.num_windows(num_samples), geometry))


def iter_blocks(num_windows: int, geometry: Geometry) -> Iterator[Block]:
    """The blocks of ``num_windows`` windows, in order."""
    size = geometry.windows_per_block
    for index, first in enumerate(range(0, num_windows, size)):
        count = min(size, num_windows - first)
        yield Block(index, first, count, first * geometry.hop, geometry.span_samples(count))


def take_span(samples: Samples, block: Block) -> npt.NDArray[np.float32]:
    """The block's SPAN: (block.num_samples,) float32 in [-1, 1], zeros behind the recording's end.

    samples: (samples,) float32 in [-1, 1], or int16 with full scale 32768.
    """
    part = samples[block.start : block.start + block.num_samples]
    span = np.zeros(block.num_samples, np.float32)
    span[: len(part)] = part
    if part.dtype == np.int16:
        span /= np.float32(32768.0)
    return span
