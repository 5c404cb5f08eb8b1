"""The evidence merge against a direct evaluation of its formulas, pair by pair and row by row."""

from itertools import combinations

import msgspec
import numpy as np
import pytest

from diar.evidence import Evidence, merge_clusters

SHARE = 0.3  # of each row's speech that it may count as its own


@pytest.fixture(scope="module")
def constants(profile):
    """Those of the first measurements, whatever the profile says now."""
    return msgspec.structs.replace(
        profile.clustering, kappa=2.0, c_s=1.0, b=0.9, vmax=15.0, lambda_=2.0, f0=0.1, min_cluster_s=0.5
    )


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def cosine(one, two):
    return unit(one) @ unit(two)


def random_rows(seed, num_windows=14, num_voices=4, num_groups=12, dim=24, seconds=(1.0, 9.0)):
    """Rows of up to three voices per window, in groups that hold one voice each."""
    rng = np.random.default_rng(seed)
    voices = unit(rng.normal(size=(num_voices, dim)) + 0.7)  # not orthogonal: some pairs are doubtful
    window, voice = [], []
    for index in range(num_windows):
        for speaker in rng.permutation(num_voices)[: rng.integers(1, 4)]:
            window.append(index)
            voice.append(speaker)
    voice = np.array(voice)
    vectors = unit(voices[voice] + rng.normal(size=(len(voice), dim)) * 0.25)
    groups = voice + num_voices * rng.integers(0, num_groups // num_voices, len(voice))
    _, groups = np.unique(groups, return_inverse=True)
    return vectors, rng.uniform(*seconds, len(voice)), np.array(window), groups


class Direct:
    """The procedure of CLUSTERING.md, every sum taken anew over the rows of each cluster."""

    def __init__(self, rows, constants, share=SHARE):
        vectors, speech, self.window, self.groups = rows
        r2 = np.clip(speech / (speech + constants.c_s), 0.2, 0.9)
        self.nu = constants.kappa * share * r2 / (1 - r2)
        self.force = (constants.kappa * share * np.sqrt(r2) / (1 - r2))[:, None] * vectors
        self.seconds = share * speech
        self.constants = constants

    def rows(self, cluster):
        return np.flatnonzero(np.isin(self.groups, list(cluster)))

    def vm(self, rows):
        nu = self.nu[rows].sum()
        v = nu / (1 + nu / self.constants.vmax)
        return v, v / nu * self.force[rows].sum(axis=0)

    def likelihood(self, v, m):
        return m @ m / (1 / self.constants.b + v) - np.log(1 + self.constants.b * v)

    def score(self, one, two):
        i, j = self.rows(one), self.rows(two)
        together = sum(self.window[a] == self.window[b] for a in i for b in j)
        (v1, m1), (v2, m2) = self.vm(i), self.vm(j)
        gain = self.likelihood(v1 + v2, m1 + m2) - self.likelihood(v1, m1) - self.likelihood(v2, m2)
        excess = max(0, together / max(len(i), len(j)) - self.constants.f0)
        return gain - self.constants.lambda_ * excess

    def cost(self, pair):
        return -self.score(*pair) * min(map(self.seconds_of, pair))

    def posterior(self, cluster):
        v, m = self.vm(self.rows(cluster))
        return m / (1 / self.constants.b + v), 1 / (1 / self.constants.b + v)

    def blend_score(self, cluster, one, two):
        v, m = self.vm(self.rows(cluster))
        (u1, p1), (u2, p2) = self.posterior(one), self.posterior(two)

        def log_density(mean, variance):
            return -np.sum((m / v - mean) ** 2) / (variance + 1 / v) - np.log(variance + 1 / v)

        def mixture(w):
            mean = w * u1 + (1 - w) * u2
            s = (w * np.linalg.norm(u1) + (1 - w) * np.linalg.norm(u2)) / np.linalg.norm(mean)
            return log_density(s * mean, s**2 * (w**2 * p1 + (1 - w) ** 2 * p2))

        return max(mixture(w / 10) for w in range(1, 10)) - log_density(0.0, self.constants.b)

    def blends(self, clusters, most):
        """Of those that count the mixtures of the nearest and another one, none of which is one."""
        counted = sorted(filter(self.is_long, clusters), key=lambda c: (-self.seconds_of(c), min(c)))
        blends = []
        for cluster in counted:
            least = self.seconds_of(cluster) / 3
            parts = [c for c in counted if c != cluster and c not in blends and self.seconds_of(c) >= least]
            if len(parts) < 2 or len(blends) == most:
                continue
            mean = self.vm(self.rows(cluster))[1]
            nearest = max(parts, key=lambda part: cosine(self.posterior(part)[0], mean))
            if max(self.blend_score(cluster, nearest, part) for part in parts if part != nearest) > 0:
                blends.append(cluster)
        return blends

    def seconds_of(self, cluster):
        return self.seconds[self.rows(cluster)].sum()

    def is_long(self, cluster):
        return self.seconds_of(cluster) >= max(
            self.constants.min_cluster_s, self.constants.min_cluster_share * sum(self.seconds)
        )

    def merge(self, least, most):
        clusters = [frozenset([int(group)]) for group in np.unique(self.groups)]
        aside = None
        while len(clusters) > least:
            one, two = max(combinations(clusters, 2), key=lambda pair: self.score(*pair))
            count = sum(map(self.is_long, clusters))
            if self.score(one, two) <= 0 and aside is None:
                aside = self.blends(clusters, count - least)
                clusters = [c for c in clusters if c not in aside]
                continue
            if self.score(one, two) <= 0:
                if most is None or count <= most:
                    break
                one, two = min(combinations(filter(self.is_long, clusters), 2), key=self.cost)
            if count <= least and self.is_long(one) and self.is_long(two):
                break
            clusters = [c for c in clusters if c not in (one, two)] + [one | two]
        return set(clusters) | set(aside or ())


def merged(rows, constants, bounds, share=SHARE):
    """The clusters as sets of groups, and those of them that count."""
    vectors, speech, window, groups = rows
    shares = np.broadcast_to(share, len(speech))
    evidence = Evidence.of_groups(vectors, speech, window, groups, shares, constants)
    cluster, speakers = merge_clusters(evidence, constants, bounds)
    sets = {index: frozenset(np.flatnonzero(cluster == index).tolist()) for index in np.unique(cluster)}
    return set(sets.values()), [sets[index] for index in speakers]


@pytest.mark.parametrize("bounds", [(1, None), (1, 2), (3, 3), (6, 6), (5, None), (2, 7)])
@pytest.mark.parametrize("seed", range(8))
def test_merging_is_that_of_the_formulas(seed, bounds, constants):
    rows = random_rows(seed)
    assert merged(rows, constants, bounds)[0] == Direct(rows, constants).merge(*bounds)


@pytest.mark.parametrize("bounds", [(1, None), (4, 4)])
@pytest.mark.parametrize("seed", range(6))
def test_merging_of_clusters_too_short_to_count_is_that_of_the_formulas(seed, bounds, constants):
    rows = random_rows(seed, num_windows=9, seconds=(0.2, 1.5))
    assert merged(rows, constants, bounds)[0] == Direct(rows, constants).merge(*bounds)


@pytest.mark.parametrize("seed", range(6))
def test_rows_with_shares_of_their_own_are_merged_by_the_formulas(seed, constants):
    rows = random_rows(seed)
    share = np.random.default_rng(seed).uniform(0.05, 1, len(rows[1]))
    for bounds in [(1, None), (4, 4)]:
        expected = Direct(rows, constants, share).merge(*bounds)
        assert merged(rows, constants, bounds, share)[0] == expected


@pytest.mark.parametrize("seed", range(40))
def test_two_groups_merge_exactly_if_their_score_is_positive(seed, constants):
    rows = random_rows(seed, num_windows=4, num_voices=2, num_groups=2)
    score = Direct(rows, constants).score({0}, {1})
    assert (len(merged(rows, constants, (1, None))[0]) == 1) == (score > 0)


@pytest.mark.parametrize(
    ("v", "cosine"), [(2.5, 0.37), (5.0, 0.57), (10.0, 0.72), (15.0 - 1e-6, 0.79)], ids=lambda x: f"{x:.3g}"
)
def test_the_cosine_from_which_two_equal_clusters_merge(v, cosine, constants):
    nu = v / (1 - v / constants.vmax)
    for angle, expected in [(cosine - 0.01, 2), (cosine + 0.015, 1)]:
        directions = np.array([[1.0, 0.0], [angle, np.sqrt(1 - angle**2)]])
        evidence = Evidence(np.full(2, nu), nu * directions, np.ones(2), np.zeros((2, 2)), np.full(2, 60.0))
        assert len(set(merge_clusters(evidence, constants, (1, None))[0])) == expected


def test_voices_heard_side_by_side_need_to_be_more_alike(constants):
    cosine = 0.8
    vectors = np.array([[1.0, 0.0], [cosine, np.sqrt(1 - cosine**2)]] * 5)
    speech = np.full(10, 3.0)
    groups = np.array([0, 1] * 5)
    together = np.repeat(np.arange(5), 2)
    assert len(merged((vectors, speech, np.arange(10), groups), constants, (1, None))[0]) == 1
    assert len(merged((vectors, speech, together, groups), constants, (1, None))[0]) == 2


def test_rows_of_one_window_and_one_group_are_not_side_by_side(constants):
    window = np.array([0, 0, 0, 1, 1])
    groups = np.array([0, 0, 1, 1, 2])
    evidence = Evidence.of_groups(np.eye(5), np.ones(5), window, groups, np.full(5, SHARE), constants)
    off_diagonal = evidence.together - np.diag(np.diag(evidence.together))
    np.testing.assert_array_equal(off_diagonal, [[0, 2, 0], [2, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(evidence.rows, [2, 2, 1])
    np.testing.assert_allclose(evidence.seconds, [0.6, 0.6, 0.3])


@pytest.mark.parametrize("seed", range(6))
def test_asking_for_the_count_that_was_found_changes_nothing(seed, constants):
    rows = random_rows(seed, seconds=(4.0, 9.0))  # every group is long enough to count
    found, speakers = merged(rows, constants, (1, None))
    assert merged(rows, constants, (len(speakers), len(speakers))) == (found, speakers)


@pytest.mark.parametrize("count", range(1, 13))
def test_a_count_asked_for_is_met_exactly(count, constants):
    rows = random_rows(3, seconds=(4.0, 9.0))
    num_groups = len(np.unique(rows[3]))
    for bounds in [(count, count), (count, None)]:
        assert len(merged(rows, constants, bounds)[1]) >= min(count, num_groups)
    assert len(merged(rows, constants, (1, count))[1]) <= count
    assert len(merged(rows, constants, (count, count))[1]) == min(count, num_groups)


def test_as_many_clusters_as_were_asked_for_stay_even_if_too_short_to_count(constants):
    vectors = unit(np.array([[1.0, 0.0], [0.9, 0.1]]))
    rows = vectors, np.array([60.0, 1.0]), np.arange(2), np.arange(2)
    assert len(merged(rows, constants, (1, None))[1]) == 1
    assert len(merged(rows, constants, (2, 2))[1]) == 2


def test_short_clusters_do_not_count_unless_there_is_no_other(constants):
    vectors, window, groups = np.eye(3), np.arange(3), np.arange(3)
    long_and_short = vectors, np.array([1.0, 9.0, 9.0]), window, groups
    assert merged(long_and_short, constants, (1, None))[1] == [frozenset([1]), frozenset([2])]
    all_short = vectors, np.array([1.0, 1.2, 1.1]), window, groups
    assert merged(all_short, constants, (1, None))[1] == [frozenset([1])]
    assert merged(all_short, constants, (2, None))[1] == [frozenset([1]), frozenset([2])]


def test_one_group_is_one_speaker(constants):
    rows = np.eye(1, 4), np.array([0.1]), np.array([7]), np.array([0])
    assert merged(rows, constants, (1, None)) == ({frozenset([0])}, [frozenset([0])])
    assert merged(rows, constants, (3, 3)) == ({frozenset([0])}, [frozenset([0])])


def test_equal_scores_merge_the_lowest_pair_first(constants):
    vectors = np.repeat(np.eye(2), 2, axis=0)  # 0 and 1 are alike, so are 2 and 3
    rows = vectors, np.full(4, 5.0), np.arange(4), np.arange(4)
    assert merged(rows, constants, (3, 3))[0] == {frozenset([0, 1]), frozenset([2]), frozenset([3])}


def test_the_same_rows_give_the_same_clusters_again(constants):
    rows = random_rows(5, num_windows=60, num_groups=40)
    assert merged(rows, constants, (1, None)) == merged(rows, constants, (1, None))


def test_without_the_side_by_side_term_only_the_voices_count(constants):
    rows = random_rows(2)
    blind = msgspec.structs.replace(constants, lambda_=0.0)
    apart = (*rows[:2], np.arange(len(rows[0])), rows[3])
    assert merged(rows, blind, (1, None)) == merged(apart, blind, (1, None))


def test_one_speaker_too_many_costs_the_shortest_its_name_rather_than_a_long_one(constants):
    directions = np.array([[1.0, 0.0, 0.0], [0.4, np.sqrt(1 - 0.4**2), 0.0], [0.2, 0.0, np.sqrt(1 - 0.04)]])
    rows = directions, np.array([300.0, 300.0, 10.0]), np.arange(3), np.arange(3)
    assert len(merged(rows, constants, (1, None))[1]) == 3
    assert merged(rows, constants, (1, 2))[1] == [frozenset([0, 2]), frozenset([1])]


def test_in_a_long_recording_a_few_seconds_are_no_speaker(constants):
    vectors, window, groups = np.eye(2), np.arange(2), np.arange(2)
    for speech, expected in [([1_000.0, 3.0], 2), ([3_000.0, 3.0], 1)]:
        shared = msgspec.structs.replace(constants, min_cluster_share=0.002)
        assert len(merged((vectors, np.array(speech), window, groups), shared, (1, None))[1]) == expected
