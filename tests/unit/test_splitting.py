"""Local speakers that are two people: which frames move, where to, and when none do."""

import msgspec
import numpy as np
import pytest
import torch

from diar.evidence import capped, log_likelihood, row_evidence
from diar.powerset import powerset_classes
from diar.profile import load_profile
from diar.splitting import Splitter, divide, piece_starts, piece_sums, scores, spread

CPU = torch.device("cpu")
CLASS = {members: klass for klass, members in enumerate(powerset_classes(3, 2))}
DIM = 192


@pytest.fixture
def splitter(profile):
    return Splitter(profile.geometry, profile.clustering, CPU)


def logits_of(windows, classes=7, frames=589):
    """Scores, no two alike, of windows of (first frame, end, klass) each."""
    logits = -5 - torch.rand(len(windows), frames, classes, generator=torch.Generator().manual_seed(1))
    logits[:, :, 0] += 4
    for index, parts in enumerate(windows):
        for begin, end, klass in parts:
            logits[index, begin:end, klass] += 8
    return logits


class Voices:
    """Embeds masks: the mean over their frames of who is heard there, each voice a direction."""

    def __init__(self, windows, frames=589):
        """windows: of (first frame, end, voice) each."""
        self.heard = torch.zeros(len(windows), frames, DIM)
        for index, parts in enumerate(windows):
            for begin, end, voice in parts:
                self.heard[index, begin:end, voice] = 1.0
        self.heard += 0.02 * torch.randn(self.heard.shape, generator=torch.Generator().manual_seed(2))

    def __call__(self, masks):
        return masks.float() @ self.heard


def classes_of(logits):
    return logits.argmax(dim=-1).numpy()


def expected(parts, frames=589):
    classes = np.zeros(frames, int)
    for begin, end, klass in parts:
        classes[begin:end] = klass
    return classes


A, B, C, AB, BC = CLASS[(0,)], CLASS[(1,)], CLASS[(2,)], CLASS[(0, 1)], CLASS[(1, 2)]


@pytest.mark.parametrize(
    ("heard", "voices", "becomes"),
    [
        pytest.param(
            [(10, 200, A), (220, 330, A)],
            [(10, 200, 7), (220, 330, 8)],
            [(10, 200, A), (220, 330, B)],
            id="the-longer-part-stays",
        ),
        pytest.param(
            [(10, 120, A), (140, 330, A)],
            [(10, 120, 7), (140, 330, 8)],
            [(10, 120, B), (140, 330, A)],
            id="whether-first-or-second",
        ),
        pytest.param(
            [(0, 150, A), (170, 180, A), (200, 220, A), (240, 340, A)],
            [(0, 180, 7), (200, 340, 8)],
            [(0, 150, A), (170, 180, A), (200, 220, B), (240, 340, B)],
            id="short-pieces-go-with-the-nearest",
        ),
        pytest.param(
            [(0, 150, A), (170, 300, A), (320, 400, B), (310, 320, AB)],
            [(0, 150, 7), (170, 320, 8), (320, 400, 9)],
            [(0, 150, A), (170, 300, C), (320, 400, B), (310, 320, BC)],
            id="with-what-they-say-at-once",
        ),
        pytest.param(
            [(0, 176, A), (176, 440, A)],
            [(0, 176, 7), (176, 440, 8)],
            [(0, 176, B), (176, 440, A)],
            id="without-a-pause",
        ),
    ],
)
def test_two_people_get_a_slot_each(splitter, heard, voices, becomes):
    logits = logits_of([heard])
    split = splitter.split(logits, Voices([voices]))
    np.testing.assert_array_equal(classes_of(split)[0], expected(becomes))
    torch.testing.assert_close(split.sort(dim=-1).values, logits.sort(dim=-1).values, rtol=0, atol=0)
    same = classes_of(split) == classes_of(logits)
    assert torch.equal(split[torch.from_numpy(same)], logits[torch.from_numpy(same)])


@pytest.mark.parametrize(
    ("heard", "voices"),
    [
        pytest.param([(10, 200, A), (220, 400, A)], [(10, 400, 7)], id="one-person"),
        pytest.param([(10, 200, A), (220, 270, A)], [(10, 200, 7), (220, 270, 8)], id="too-short-a-part"),
        pytest.param(
            [(0, 150, A), (170, 330, A), (350, 450, B), (470, 560, C)],
            [(0, 150, 7), (170, 330, 8), (350, 450, 9), (470, 560, 10)],
            id="no-slot-to-spare",
        ),
        pytest.param([(0, 200, A), (220, 400, B)], [(0, 200, 7), (220, 400, 8)], id="apart-already"),
        pytest.param([(0, 300, AB)], [(0, 150, 7), (150, 300, 8)], id="never-alone"),
        pytest.param([], [], id="silence"),
    ],
)
def test_all_others_stay_as_they_are(splitter, heard, voices):
    logits = logits_of([heard])
    assert torch.equal(splitter.split(logits, Voices([voices])), logits)


def test_windows_do_not_look_at_each_other(splitter):
    mixed = [(10, 200, A), (220, 330, A)], [(10, 200, 7), (220, 330, 8)]
    single = [(10, 200, A), (220, 330, A)], [(10, 330, 7)]
    pairs = [mixed, single, ([], []), mixed]
    heard, voices = zip(*pairs, strict=True)
    logits = logits_of(heard)
    together = classes_of(splitter.split(logits, Voices(voices)))
    for index, one in enumerate(voices):
        alone = splitter.split(logits[index : index + 1], Voices([one]))
        np.testing.assert_array_equal(together[index], classes_of(alone)[0])


def test_of_two_mixed_local_speakers_the_surer_one_is_split(splitter):
    heard = [(0, 100, A), (120, 220, A), (240, 400, B), (420, 580, B)]
    voices = [(0, 100, 7), (120, 220, 8), (240, 400, 9), (420, 580, 10)]
    split = classes_of(splitter.split(logits_of([heard]), Voices([voices])))[0]
    np.testing.assert_array_equal(split[:220], expected(heard)[:220])
    assert sorted({*split[240:400].tolist()} | {*split[420:580].tolist()}) == [B, C]


def test_another_geometry_has_slots_and_classes_of_its_own():
    profile = load_profile("span16")
    classes = {members: klass for klass, members in enumerate(powerset_classes(4, 4))}
    logits = logits_of([[(0, 200, classes[(0, 1, 2)]), (210, 400, classes[(2,)])]], classes=16, frames=799)
    logits[0, 420:600, classes[(2,)]] += 8
    voices = Voices([[(0, 400, 7), (420, 600, 8)]], frames=799)
    split = classes_of(Splitter(profile.geometry, profile.clustering, CPU).split(logits, voices))[0]
    assert {*split[210:400].tolist()} | {*split[420:600].tolist()} == {classes[(2,)], classes[(3,)]}
    assert {*split[:200].tolist()} <= {classes[(0, 1, 2)], classes[(0, 1, 3)]}


def test_the_score_is_the_one_that_merges_clusters(profile):
    constants = profile.clustering
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(5, DIM)) + rng.normal(size=DIM)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nu, force = row_evidence(vectors, np.array([0.9, 1.0, 2.0, 4.0, 8.0]), np.ones(5), constants)
    v, m = capped(nu, force, constants)

    def own(v, m):
        return log_likelihood(v, np.einsum("...d,...d->...", m, m), constants)

    expected = own(v[:, None] + v, m[:, None] + m) - own(v, m)[:, None] - own(v, m)
    given = torch.from_numpy(nu), torch.from_numpy(force)
    np.testing.assert_allclose(scores(given, given, constants).numpy(), expected, rtol=1e-9)


def test_pieces_are_divided_by_voice_not_by_time(profile):
    vectors = torch.eye(DIM)[[3, 4, 3, 4, 3]][None]
    seconds = torch.tensor([[[1.0, 2.0, 1.0, 1.0, 1.0], [0.0] * 5]])
    score, second = divide(vectors, seconds, profile.clustering)
    assert score[0, 0] < 0
    assert score[0, 1] == torch.inf
    assert second[0, 0].tolist() in ([False, True, False, True, False], [True, False, True, False, True])
    assert not second[0, 1].any()


def test_less_evidence_is_less_sure(profile):
    vectors = torch.nn.functional.normalize(torch.eye(DIM)[[0, 1]] + 0.85 * torch.eye(DIM)[2], dim=-1)[None]
    found = [divide(vectors, torch.tensor([[[s, s]]]), profile.clustering)[0].item() for s in (0.8, 3.0)]
    assert found[0] > 0 > found[1]
    constants = msgspec.structs.replace(profile.clustering, b=0.3)
    assert divide(vectors, torch.tensor([[[3.0, 3.0]]]), constants)[0] != found[1]


@pytest.mark.parametrize(
    ("active", "pause", "longest", "starts"),
    [
        ("##..##...##", 2, 10, "^        ^ "),
        ("#.#.#.#.#", 0, 10, "^ ^ ^ ^ ^"),
        ("..########..", 2, 3, "  ^  ^  ^   "),
        ("..#######..", 2, 3, "  ^   ^    "),
        ("###.###", 2, 3.4, "^   ^  "),
        ("...", 2, 3, "   "),
    ],
)
def test_pieces_end_at_pauses_and_are_of_one_length(active, pause, longest, starts):
    frames = torch.tensor([[mark == "#" for mark in active]])
    found = piece_starts(frames, pause, longest)[0].tolist()
    assert "".join("^" if first else " " for first in found) == starts


def test_sums_of_pieces():
    rng = np.random.default_rng(6)
    first, counted = rng.random((4, 50)) < 0.1, rng.random((4, 50)) < 0.6
    first[1] = False
    found = piece_sums(torch.from_numpy(first), torch.from_numpy(counted)).numpy()
    for row in range(4):
        number = first[row].cumsum()
        sums = np.bincount(number, counted[row])
        inside = number > 0
        np.testing.assert_array_equal(found[row, inside], sums[number[inside]])


def test_the_nearest_piece_decides_of_two_the_earlier():
    piece = torch.tensor([[-1, 0, -1, -1, 1, -1, -1, -1, 0], [-1] * 9])
    chosen = torch.tensor([[False, True], [False, False]])
    assert spread(piece, chosen).int().tolist() == [[0, 0, 0, 1, 1, 1, 1, 0, 0], [0] * 9]
