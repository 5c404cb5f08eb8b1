"""Powerset classes: which local speakers are active together.

Order of the classes: by size, then lexicographic, as in Plaquet and Bredin, "Powerset multi-class cross
entropy loss for neural speaker diarization", Interspeech 2023.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from diar.spans import Geometry


@lru_cache
def powerset_classes(local_speakers: int, max_overlap: int) -> tuple[tuple[int, ...], ...]:
    """The classes as tuples of local speakers.

    >>> powerset_classes(3, 2)
    ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    """
    return tuple(c for size in range(max_overlap + 1) for c in combinations(range(local_speakers), size))


def class_members(geometry: Geometry) -> npt.NDArray[np.bool_]:
    """Which local speakers each class holds: (klass, local_speaker) bool."""
    classes = powerset_classes(geometry.local_speakers, geometry.max_overlap)
    members = np.zeros((len(classes), geometry.local_speakers), bool)
    for klass, speakers in enumerate(classes):
        members[klass, list(speakers)] = True
    return members


def decode_classes(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """The best class of every frame; ties go to the lower class, so to fewer speakers.

    logits: (window, frame, klass) float32. Returns (window, frame) uint8.
    """
    classes: npt.NDArray[np.uint8] = logits.argmax(axis=-1).astype(np.uint8)
    return classes


def expand_classes(classes: npt.NDArray[np.uint8], geometry: Geometry) -> npt.NDArray[np.bool_]:
    """Who is active in every frame.

    classes: (window, frame) uint8. Returns (window, frame, local_speaker) bool.
    """
    expanded: npt.NDArray[np.bool_] = class_members(geometry)[classes]
    return expanded
