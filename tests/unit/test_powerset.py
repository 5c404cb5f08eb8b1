"""Powerset classes: order, decoding, expansion."""

from itertools import combinations

import numpy as np
import pytest

from diar.powerset import (
    LOG_ODDS_STEPS,
    MOST_LOG_ODDS,
    class_members,
    decode_classes,
    expand_classes,
    local_log_odds,
    powerset_classes,
)
from diar.spans import Geometry


def geometry(local_speakers, max_overlap):
    return Geometry(10, 5, 3, 3, 2, 4, local_speakers, max_overlap)


@pytest.mark.parametrize(("speakers", "overlap"), [(1, 1), (2, 1), (3, 2), (4, 2), (4, 4)])
def test_classes_are_all_sets_by_size_then_lexicographic(speakers, overlap):
    classes = powerset_classes(speakers, overlap)
    assert len(classes) == len(set(classes)) == geometry(speakers, overlap).num_classes
    assert list(classes) == sorted(classes, key=lambda c: (len(c), c))
    assert set(classes) == {c for n in range(overlap + 1) for c in combinations(range(speakers), n)}


def test_members_of_the_default_classes():
    expected = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    np.testing.assert_array_equal(class_members(geometry(3, 2)), np.array(expected, bool))


def test_the_best_class_of_each_frame_is_expanded_to_its_speakers():
    classes = np.array([[0, 3, 6], [5, 1, 4]], np.uint8)
    logits = np.full((2, 3, 7), -9.0, np.float32)
    np.put_along_axis(logits, classes[..., None].astype(int), -0.1, axis=2)
    decoded = decode_classes(logits)
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, classes)
    speakers = [
        [tuple(np.flatnonzero(frame)) for frame in window]
        for window in expand_classes(decoded, geometry(3, 2))
    ]
    assert speakers == [[(), (2,), (1, 2)], [(0, 2), (0,), (0, 1)]]


def test_a_tie_goes_to_fewer_speakers():
    logits = np.array([[[-1, -1, -1, -1, -1, -1, -1], [-9, -9, -1, -9, -1, -1, -9]]], np.float32)
    np.testing.assert_array_equal(decode_classes(logits), [[0, 2]])


def test_no_window_decodes_to_no_window():
    assert expand_classes(decode_classes(np.zeros((0, 3, 7), np.float32)), geometry(3, 2)).shape == (0, 3, 3)


def test_log_odds_of_a_local_speaker_are_those_of_all_classes_that_hold_it():
    probability = np.array([0.4, 0.1, 0.05, 0.05, 0.2, 0.15, 0.05])
    logits = (np.log(probability) + 3.0).astype(np.float32)[None, None]  # up to a constant
    held = np.array([0.1 + 0.2 + 0.15, 0.05 + 0.2 + 0.05, 0.05 + 0.15 + 0.05])
    steps = local_log_odds(logits, geometry(3, 2))
    assert (steps.dtype, steps.shape) == (np.uint8, (1, 1, 3))
    found = steps[0, 0] / LOG_ODDS_STEPS - MOST_LOG_ODDS
    np.testing.assert_allclose(found, np.log(held / (1 - held)), atol=0.5 / LOG_ODDS_STEPS)


def test_log_odds_of_what_is_sure_are_cut_off():
    logits = np.full((1, 2, 7), -np.inf, np.float32)
    logits[0, 0, 4] = logits[0, 1, 0] = 50.0
    most = 2 * MOST_LOG_ODDS * LOG_ODDS_STEPS
    assert most <= 255
    np.testing.assert_array_equal(local_log_odds(logits, geometry(3, 2)), [[[most, most, 0], [0, 0, 0]]])
