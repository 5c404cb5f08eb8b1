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

MOST_LOG_ODDS = 7.0  # 999 to 1: surer than that a network seldom is, and never with reason
LOG_ODDS_STEPS = 16  # in one: 225 values, which a byte holds


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


def local_log_odds(logits: npt.NDArray[np.float32], geometry: Geometry) -> npt.NDArray[np.uint8]:
    """How sure the segmentation is of each local speaker in every frame, as a byte.

    logits: (window, frame, klass) float32, log-probabilities up to a constant. Returns (window, frame,
    local_speaker) uint8: natural log-odds that it is active, from -MOST_LOG_ODDS (0) to MOST_LOG_ODDS.
    """
    likelihood = np.exp(logits - logits.max(axis=-1, keepdims=True))
    odds = np.empty((*logits.shape[:2], geometry.local_speakers), np.uint8)
    for speaker, active in enumerate(class_members(geometry).T):
        with np.errstate(divide="ignore"):  # a class may be impossible
            log_odds = np.log(likelihood[..., active].sum(-1)) - np.log(likelihood[..., ~active].sum(-1))
        shifted = np.clip(log_odds, -MOST_LOG_ODDS, MOST_LOG_ODDS) + MOST_LOG_ODDS
        odds[..., speaker] = np.rint(shifted * LOG_ODDS_STEPS)
    return odds
