"""Speakers of a live recording keep their numbers, and early mistakes are repaired."""

import numpy as np
import pytest

import diar.online
from diar.online import OnlineSpeakers

DIM = 192
SHARE = 0.1


@pytest.fixture
def speakers(profile):
    return OnlineSpeakers(profile.clustering, DIM, 20)


def voices(count, seed=1):
    """(count, DIM) far from each other, of length 1."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIM))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def near(voice, seed, noise=0.4):
    """A voice as another window hears it."""
    other = voice + noise * voices(1, 1000 + seed)[0]
    return other / np.linalg.norm(other)


def hear(speakers, *vectors, speech=4.0, recent=0.5):
    rows = len(vectors)
    return speakers.assign(
        np.array(vectors).reshape(rows, DIM), np.full(rows, speech), SHARE, np.full(rows, recent)
    ).tolist()


def test_numbers_stay_whatever_the_order_in_a_window(speakers):
    one, other = voices(2)
    assert hear(speakers, one) == [0]
    for window in range(20):
        first, second = near(one, window), near(other, 100 + window)
        if window % 2:
            assert hear(speakers, first, second) == [0, 1]
        else:
            assert hear(speakers, second, first) == [1, 0]


def test_who_was_silent_for_long_is_known_again(speakers):
    one, other = voices(2)
    for window in range(5):
        assert hear(speakers, near(one, window)) == [0]
    for window in range(100):
        assert hear(speakers, near(other, window)) == [1]
    assert hear(speakers, near(one, 7)) == [0]


def test_a_voice_split_by_mistake_becomes_one(speakers):
    (one,) = voices(1)
    halves = [near(one, 1, noise=1.2), near(one, 2, noise=1.2)]  # cosine about 0.4 to each other
    first = {number for half in halves for number in hear(speakers, half, speech=1.0, recent=0.1)}
    for window in range(40):
        hear(speakers, near(one, window, noise=0.6))
    assert len({number for half in halves for number in hear(speakers, near(half, 9))}) == 1
    assert 0 in first


def test_two_voices_thrown_together_by_mistake_are_told_apart_later(speakers):
    one, other = voices(2)
    mixed = (one + other) / np.linalg.norm(one + other)
    assert hear(speakers, mixed, speech=1.0, recent=0.1) == [0]
    for window in range(20):
        numbers = hear(speakers, near(one, window), near(other, window))
        assert numbers[0] != numbers[1]
    assert hear(speakers, near(one, 50)) + hear(speakers, near(other, 50)) == numbers


def test_silence_and_the_first_short_sound_are_answered(speakers):
    (one,) = voices(1)
    assert hear(speakers) == []
    assert hear(speakers, np.zeros(DIM), speech=0.0) == [0]
    assert hear(speakers, one, speech=0.3) == [0]
    assert hear(speakers, np.zeros(DIM), one, speech=0.3)[1] == 0


def test_no_more_speakers_than_allowed(profile):
    speakers = OnlineSpeakers(profile.clustering, DIM, 3)
    heard = [hear(speakers, near(voice, 1))[0] for voice in np.repeat(voices(6), 5, axis=0)]
    assert set(heard) <= {0, 1, 2}
    assert len(set(hear(speakers, *voices(3)))) == 3


def test_memory_is_bounded_and_speakers_survive_it(profile, monkeypatch):
    monkeypatch.setattr(diar.online, "MAX_GROUPS", 8)
    speakers = OnlineSpeakers(profile.clustering, DIM, 20)
    two = voices(2)
    numbers = set()
    for window in range(60):  # far too noisy to be one group each
        rows = [near(voice, 7 * window + index, noise=1.3) for index, voice in enumerate(two)]
        numbers.add(tuple(hear(speakers, *rows)))
        assert len(speakers._heard.nu) <= 8
        assert speakers._heard.together.shape == (len(speakers._heard.nu),) * 2
        assert speakers._shown.shape == (len(speakers._heard.nu), 20)
    assert (0, 1) in numbers
    assert tuple(hear(speakers, near(two[0], 1), near(two[1], 2))) == (0, 1)
