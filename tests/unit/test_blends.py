"""Clusters of local speakers that hold two voices at once are set aside; voices are not."""

import numpy as np
import pytest

from diar.blends import find_blends
from diar.evidence import Evidence, merge_clusters

DIM = 192


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(params=range(5))
def voices(request):
    return unit(np.random.default_rng(request.param).normal(size=(4, DIM)))


@pytest.fixture
def constants(profile):
    return profile.clustering


def found(directions, seconds, constants, most=10):
    """Blends among clusters of clear evidence in these directions."""
    v = np.full(len(directions), 8.0)
    return find_blends(v, 0.95 * v[:, None] * unit(directions), np.array(seconds), most, constants)


@pytest.mark.parametrize("weight", [0.35, 0.5, 0.65])
def test_a_mixture_of_two_voices_is_a_blend(voices, constants, weight):
    mixed = weight * voices[0] + (1 - weight) * voices[1]
    assert found(np.array([*voices[:3], mixed]), [60.0, 50.0, 40.0, 9.0], constants) == [3]


def test_voices_of_any_length_are_none(voices, constants):
    assert found(voices, [60.0, 5.0, 2.0, 1.0], constants) == []


def test_a_voice_that_was_hardly_heard_alone_makes_no_mixture(voices, constants):
    mixed = voices[0] + voices[1]
    assert found(np.array([*voices[:2], mixed]), [60.0, 2.9, 9.0], constants) == []
    assert found(np.array([*voices[:2], mixed]), [60.0, 3.1, 9.0], constants) == [2]


def test_no_more_are_set_aside_than_may_be(voices, constants):
    mixtures = [voices[0] + voices[1], voices[1] + voices[2]]
    directions, seconds = np.array([*voices[:3], *mixtures]), [60.0, 50.0, 40.0, 7.0, 9.0]
    assert found(directions, seconds, constants) == [4, 3]
    assert found(directions, seconds, constants, most=1) == [4]
    assert found(directions, seconds, constants, most=0) == []


@pytest.mark.parametrize("count", [1, 2])
def test_two_clusters_are_no_mixtures(voices, constants, count):
    assert found(voices[:count], [60.0, 50.0][:count], constants) == []


@pytest.mark.parametrize(
    ("bounds", "speakers"),
    [((1, None), [0, 1]), ((2, 2), [0, 1]), ((3, 3), [0, 1, 2]), ((3, None), [0, 1, 2]), ((1, 2), [0, 1])],
)
def test_merging_sets_blends_aside_unless_more_speakers_are_asked_for(constants, bounds, speakers):
    directions = unit(np.array([[1.0, -0.1, 0.0], [-0.1, 1.0, 0.0], [1.0, 1.0, 0.0]]))
    seconds = np.array([60.0, 50.0, 20.0])
    nu = constants.kappa * seconds
    evidence = Evidence(nu, 0.95 * nu[:, None] * directions, np.full(3, 9.0), np.zeros((3, 3)), seconds)
    cluster, counted = merge_clusters(evidence, constants, bounds)
    assert counted.tolist() == speakers
    assert cluster.tolist() == [0, 1, 2]
