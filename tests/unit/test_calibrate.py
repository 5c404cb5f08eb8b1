"""Calibration: stretches and pairs by hand, constants that were planted, the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from diar.errors import SetupError
from diar.tools import calibrate
from diar.tools.fitting import LEAST_PAIRS, Fit, equal_error, fit, leave_one_out, table
from diar.tools.stretches import DURATIONS_S, Pairs, Stretches, all_pairs, embed_stretches
from diar.tools.utterances import Utterance, list_speakers
from diar.tools.voices import Pair, alike_pairs, pair_of_rank, speech_frames, unit

RATE = 16_000
DIM = 192
SINGLE = Path(__file__).parents[3] / "shared" / "data" / "single"


def planted(c_s, b, num_speakers=30, per_duration=5, seed=0):
    """Stretches of speakers as the model of the evidence merge has them."""
    rng = np.random.default_rng(seed)
    common = unit(rng.normal(size=DIM)) * np.sqrt(1 - b)
    rows = []
    for speaker in range(num_speakers):
        voice = common + unit(rng.normal(size=DIM)) * np.sqrt(b)
        for seconds in DURATIONS_S:
            r2 = seconds / (seconds + c_s)
            for index in range(per_duration):
                vector = np.sqrt(r2) * voice + np.sqrt(1 - r2) * unit(rng.normal(size=DIM))
                rows.append((speaker, 100 * speaker + index, 0, seconds, unit(vector)))
    speaker, utterance, first, seconds, vectors = map(np.array, zip(*rows, strict=True))
    return Stretches(tuple(f"s{i}" for i in range(num_speakers)), speaker, utterance, first, seconds, vectors)


@pytest.mark.parametrize(("c_s", "b"), [(0.5, 0.9), (1.0, 0.9), (1.2, 0.8), (2.5, 0.95)])
def test_planted_constants_are_found(c_s, b):
    found = fit(all_pairs(planted(c_s, b)))
    assert found.c_s == pytest.approx(c_s, rel=0.06)
    assert found.b == pytest.approx(b, abs=0.02)


def test_a_refit_does_not_hear_the_speaker_that_is_left_out():
    stretches = planted(1.0, 0.9, num_speakers=8)
    odd = stretches.vectors.copy()
    odd[stretches.speaker == 3] = unit(np.random.default_rng(1).normal(size=(5 * len(DURATIONS_S), DIM)))
    pairs = all_pairs(Stretches(*(vars(stretches) | {"vectors": odd}).values()))
    refits = leave_one_out(pairs, 8)
    assert len(refits) == 8
    assert refits[3].c_s == pytest.approx(1.0, rel=0.1)
    assert min(other.c_s for index, other in enumerate(refits) if index != 3) > 1.2


def test_stretches_that_share_frames_are_no_pair():
    def of(*rows):
        speaker, utterance, first, seconds = map(np.array, zip(*rows, strict=True))
        return Stretches(("a", "b"), speaker, utterance, first, seconds, np.eye(4)[: len(rows)])

    stretches = of((0, 0, 0, 1.0), (0, 0, 99, 2.0), (0, 0, 100, 2.0), (1, 1, 0, 1.0))
    pairs = all_pairs(stretches)
    ends = sorted(zip(pairs.one.tolist(), pairs.two.tolist(), pairs.short_s, pairs.long_s, strict=True))
    assert ends == [(0, 0, 1.0, 2.0), (0, 1, 1.0, 1.0), (0, 1, 1.0, 2.0), (0, 1, 1.0, 2.0)]
    assert pairs.same.sum() == 1


def test_frames_of_speech_are_those_with_their_centre_in_it():
    utterance = Utterance(np.zeros(1600, np.float32), ((200, 521), (840, 1000)), np.zeros(0, np.float32))
    # centres 200, 360, 520, 680, 840, 1000, 1160, 1320
    np.testing.assert_array_equal(speech_frames(utterance), [1, 1, 1, 0, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("same", "different", "rate"),
    [
        pytest.param([0.6, 0.9], [0.1, 0.5], 0.0, id="apart"),
        pytest.param([0.2, 0.9], [0.1, 0.5], 0.5, id="half-of-each"),
        pytest.param([0.1, 0.2], [0.8, 0.9], 1.0, id="the-wrong-way-round"),
    ],
)
def test_equal_error_rates_worked_out_by_hand(same, different, rate):
    assert equal_error(np.array(same), np.array(different))[0] == rate


def test_the_error_falls_with_the_seconds():
    rows = table(all_pairs(planted(1.0, 0.9)))
    assert [row.seconds for row in rows] == list(DURATIONS_S)
    errors = [row.equal_error for row in rows]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.05
    assert all(row.same[2] > row.different[2] for row in rows)


def test_a_few_pairs_give_no_error_rate():
    few = Pairs(np.full(9, 0.5), np.ones(9), np.ones(9), np.array([0, *[1] * 8]), np.array([0] * 9))
    (row,) = table(few)
    assert row.pairs == (1, 8)
    assert row.pairs[0] < LEAST_PAIRS
    assert (row.equal_error, row.threshold) == (None, None)


class PitchRunner:
    """Embeds the power of three bands; the first number tells how much it heard."""

    def __init__(self):
        self.frames = []

    def embed(self, samples, active):
        assert len(active) == 1 + (len(samples) - 400) // 160
        self.frames.append(int(active.sum()))
        spectrum = np.abs(np.fft.rfft(samples, 4 * RATE))
        bands = [spectrum[4 * low : 4 * low + 400].sum() for low in (100, 200, 300)]
        return np.array(bands, np.float32)


@pytest.fixture(scope="module")
def speakers(tmp_path_factory):
    """Three voices of 3.4 s of speech with a pause in it: two alike, one apart."""
    folder = tmp_path_factory.mktemp("voices")
    time = np.arange(4 * RATE) / RATE
    active = ((time > 0.2) & (time < 1.6)) | (time > 2.0)
    for name, pitch in [("low", 150), ("lower", 160), ("high", 350)]:
        (folder / name).mkdir()
        tone = 0.2 * np.sin(2 * np.pi * pitch * time) * active
        soundfile.write(
            folder / name / "a.flac", tone + 1e-4 * np.random.default_rng(0).normal(size=len(tone)), RATE
        )
    return folder


def test_stretches_are_of_the_seconds_they_say(speakers):
    runner = PitchRunner()
    stretches = embed_stretches(list_speakers(speakers), runner)
    assert stretches.names == ("high", "low", "lower")
    assert runner.frames == [round(100 * seconds) for seconds in stretches.seconds]
    # 3.4 s of speech: six of 0.25 and 0.5 s, three of 1 s, one of 2 s
    np.testing.assert_array_equal(np.unique(stretches.seconds, return_counts=True)[1], [18, 18, 9, 3])
    np.testing.assert_allclose(np.linalg.norm(stretches.vectors, axis=1), 1)


def test_the_most_alike_voices_come_first(speakers):
    pairs = alike_pairs(list_speakers(speakers), PitchRunner())
    assert pairs[0][:2] == ("low", "lower")
    assert len(pairs) == 3
    assert pairs[0].cosine > pairs[1].cosine >= pairs[2].cosine
    assert pair_of_rank(pairs, 3) == pairs[2]


@pytest.mark.parametrize("rank", [0, -1, 2])
def test_a_rank_that_no_pair_has_is_named(rank):
    with pytest.raises(SetupError, match=rf"got rank {rank}, expected 1 to 1"):
        pair_of_rank([Pair("a", "b", 0.5)], rank)


@pytest.fixture
def command(speakers, profile_text, tmp_path, monkeypatch):
    """The command with a profile of its own and networks that hear pitch."""
    file = tmp_path / "mine.toml"
    file.write_text(profile_text.replace('name = "pyannote_campplus"', 'name = "mine"'), encoding="utf-8")
    monkeypatch.setattr(calibrate, "BlockRunner", lambda *_, **__: PitchRunner())
    return lambda *more: calibrate.main([str(speakers), "--profile", str(file), *more])


def test_the_command_prints_and_writes_the_table_beside_the_profile(command, tmp_path, capsys):
    assert command("--write") == 0
    written = json.loads((tmp_path / "mine.calibration.json").read_text(encoding="utf-8"))
    assert (written["profile"], written["speakers"]) == ("mine", 3)
    assert [row["seconds"] for row in written["durations"]] == [0.25, 0.5, 1.0]
    text = capsys.readouterr().out
    assert f"c_s: fitted {written['c_s']:.2f}" in text
    assert "in the profile 0.90" in text


def test_without_write_nothing_is_written(command, tmp_path):
    assert command() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_judging_tries_the_profiles_the_fitted_and_every_refit_once(profile, monkeypatch):
    tried = []

    def judge(recordings, changed):
        tried.append((changed.clustering.c_s, changed.clustering.b))
        return 0.2 - 0.01 * len(tried), 0.5

    monkeypatch.setattr(calibrate, "judge", judge)
    monkeypatch.setattr(calibrate, "find_pairs", lambda folder: [])
    refits = [Fit(1.101, 0.85), Fit(1.099, 0.85), Fit(1.2, 0.85)]
    *_, last = calibrate.judged(Path("dev"), profile, None, Fit(1.1, 0.85), refits)
    assert tried == [(1.0, 0.9), (1.1, 0.85), (1.1, 0.85), (1.2, 0.85)]
    assert last == "with a speaker left out 16.00 to 17.00 % DER, fitted 18.00 %"


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_speakers_is_one_line_and_exit_1(folder, tmp_path, capsys):
    assert calibrate.main([str(tmp_path / folder)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_of_a_profile_is_of_its_networks(profile):
    path = calibrate.table_path(profile.name)
    written = msgspec.json.decode(path.read_bytes())
    assert written["profile"] == profile.name
    assert written["embedding_sha256"] == profile.embedding.weights.sha256
