"""DER against answers worked out by hand, and the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from diar.errors import SetupError
from diar.result import Diarization, Speaker
from diar.tools import evaluate
from diar.tools.der import Errors, der_interval, pool, read_rttm, score
from diar.tools.scores import report, summary, table
from diar.turns import Turn, to_rttm

RATE = 16_000


def turns(*rows: tuple[float, float, str]) -> list[Turn]:
    return [Turn(round(start * RATE), round(end * RATE), speaker) for start, end, speaker in rows]


REFERENCE = turns((0, 5, "ann"), (4, 8, "bob"))


@pytest.mark.parametrize(
    ("hypothesis", "collar", "expected"),
    [
        pytest.param(turns((0, 5, "x"), (4, 8, "y")), 0.0, Errors(9, 0, 0, 0), id="right"),
        pytest.param([], 0.0, Errors(9, 9, 0, 0), id="nothing-found"),
        pytest.param(turns((0, 5, "x")), 0.0, Errors(9, 4, 0, 0), id="one-missed-overlap-counts-twice"),
        pytest.param(turns((0, 5, "x"), (4, 10, "y")), 0.0, Errors(9, 0, 2, 0), id="two-seconds-too-many"),
        # one speaker for everything is mapped to ann (5 s): bob's 3 s alone are confused, his overlap missed
        pytest.param(turns((0, 8, "x")), 0.0, Errors(9, 1, 0, 3), id="both-are-one"),
        # ann cut in two: the longer half is hers
        pytest.param(turns((0, 2, "x"), (2, 5, "y"), (4, 8, "z")), 0.0, Errors(9, 0, 0, 2), id="one-is-two"),
        pytest.param(turns((0, 5.2, "x"), (4.2, 8.2, "y")), 0.0, Errors(9, 0.2, 0.4, 0), id="late-collar-0"),
        # 0.25 s a side leave 0.25-3.75 (ann), 4.25-4.75 (both), 5.25-7.75 (bob): 7 s, none of them wrong
        pytest.param(turns((0, 5.2, "x"), (4.2, 8.2, "y")), 0.25, Errors(7, 0, 0, 0), id="late-collar-0.25"),
        pytest.param(
            turns((0, 5, "x"), (4, 8, "y"), (11, 13, "x")), 0.0, Errors(9, 0, 1, 0), id="after-the-end"
        ),
    ],
)
def test_score_counts_seconds_as_by_hand(hypothesis, collar, expected):
    found = score(REFERENCE, hypothesis, 12 * RATE, collar)
    assert np.allclose(
        [found.reference_s, found.missed_s, found.false_alarm_s, found.confusion_s],
        [expected.reference_s, expected.missed_s, expected.false_alarm_s, expected.confusion_s],
        atol=1e-6,
    )


def test_der_is_pooled_by_seconds_not_by_files():
    assert pool([Errors(10, 1, 0, 1), Errors(90, 0, 3, 0)]).der == pytest.approx(0.05)
    assert Errors().der == 0
    assert Errors(0, 0, 1, 0).der == np.inf


def test_the_bootstrap_interval_holds_the_pooled_der_and_repeats():
    files = [Errors(100, rate, 0, 0) for rate in range(5, 35)]
    low, high = der_interval(files)
    assert 0.05 < low < pool(files).der < high < 0.34
    assert high - low == pytest.approx(2 * 1.96 * np.std(range(5, 35)) / np.sqrt(30) / 100, rel=0.15)
    assert der_interval(files) == (low, high)
    assert der_interval([Errors(10, 1, 0, 0)]) == (0.1, 0.1)


def test_rttm_is_read_back(tmp_path):
    path = tmp_path / "a.rttm"
    path.write_text(
        ";; comment\n\n" + to_rttm(REFERENCE, "a") + "SPEAKER a 1 3.0 0.0 <NA> <NA> ann <NA> <NA>\n"
    )
    assert read_rttm(path) == REFERENCE


@pytest.mark.parametrize(
    "line", ["SPEAKER a 1 x 1.0 <NA> <NA> ann", "SPEAKER a 1 1.0", "SPEAKER a 1 1 -2 . . ann"]
)
def test_a_broken_rttm_line_is_named(tmp_path, line):
    (tmp_path / "a.rttm").write_text("SPEAKER a 1 0.0 1.0 <NA> <NA> ann <NA> <NA>\n" + line + "\n")
    with pytest.raises(SetupError, match=r"a\.rttm, line 2"):
        read_rttm(tmp_path / "a.rttm")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings with a reference, one without, and a reference without a recording."""
    for name, length_s in [("b_long", 12), ("a_short", 10), ("unlabelled", 1)]:
        soundfile.write(tmp_path / f"{name}.flac", np.zeros(length_s * RATE, np.float32), RATE)
    for name in ("b_long", "a_short", "lost"):
        (tmp_path / f"{name}.rttm").write_text(to_rttm(REFERENCE, name))
    return tmp_path


def one_speaker(samples, options) -> Diarization:
    """Find one speaker in the first 8 s; remembers nothing."""
    return Diarization(
        num_samples=len(samples),
        profile="scripted",
        lanes={"segmentation": "exact", "embedding": "exact"},
        requested=options.requested,
        note="",
        turns=tuple(turns((0, 8, "SPEAKER_00"))),
        exclusive_turns=(),
        speakers=(Speaker("SPEAKER_00", 8 * RATE, 1.0),),
        embeddings=np.zeros((1, 4), np.float32),
        file_id=options.file_id,
    )


def test_each_labelled_file_is_scored(folder):
    scores = [evaluate.score_file(one_speaker, *pair) for pair in evaluate.find_pairs(folder)]
    assert [(s.file_id, s.duration_s, s.reference_speakers, s.speaker_error) for s in scores] == [
        ("a_short", 10.0, 2, -1),
        ("b_long", 12.0, 2, -1),
    ]
    pooled = report(scores)["pooled"]
    assert pooled["speakers"] == {"mean_error": -1.0, "mean_absolute_error": 1.0}
    exact, collar = pooled["der"]
    assert (exact["reference"], exact["der"], exact["missed"], exact["confusion"]) == (
        18.0,
        0.44444,
        0.11111,
        0.33333,
    )
    assert exact["interval"] == [0.44444, 0.44444]
    # of the 7 s left by the collar, 2.5 s of bob alone are confused, 0.5 s of overlap missed
    assert (collar["collar_per_side"], collar["der"]) == (0.25, 0.42857)


def test_the_known_count_is_passed_on(folder):
    seen = []

    def diarize(samples, options):
        seen.append(options)
        return one_speaker(samples, options)

    pair = evaluate.find_pairs(folder)[0]
    evaluate.score_file(diarize, *pair)
    evaluate.score_file(diarize, *pair, known_count=True)
    assert [(options.num_speakers, options.file_id) for options in seen] == [
        (None, "a_short"),
        (2, "a_short"),
    ]


def test_the_command_prints_a_table_of_at_most_100_columns_and_writes_json(folder, capsys, monkeypatch):
    monkeypatch.setattr(evaluate, "local_runner", lambda *_: None)
    monkeypatch.setattr(evaluate, "local_diarizer", lambda *_: one_speaker)
    (folder / "b_long.flac").rename(folder / ("b_" + 40 * "x" + ".flac"))
    (folder / "b_long.rttm").rename(folder / ("b_" + 40 * "x" + ".rttm"))
    assert evaluate.main([str(folder), "--json", str(folder / "report.json")]) == 0
    printed = capsys.readouterr().out
    rows = printed.splitlines()
    assert max(map(len, rows[:4])) <= 100
    assert [row.split()[0] for row in rows[:4]] == [
        "recording",
        "a_short",
        "b_xxxxxxxxxxxxxxxxxxxxx…",
        "pooled",
    ]
    assert "44.4  11.1/0.0/33.3" in rows[3]
    assert "DER 44.44 %" in printed
    assert "collar 0.25 s a side, overlap scored" in printed
    document = json.loads((folder / "report.json").read_text())
    assert [row["id"] for row in document["files"]] == ["a_short", "b_" + 40 * "x"]
    assert document["overlap_scored"] is True


def test_a_file_without_reference_speech_has_no_der_but_counts_when_pooled(folder):
    (folder / "a_short.rttm").write_text("")
    scores = [evaluate.score_file(one_speaker, *pair) for pair in evaluate.find_pairs(folder)]
    document = report(scores)
    assert document["files"][0]["der"][0]["der"] is None
    assert document["pooled"]["der"][0]["der"] == pytest.approx((4 + 8) / 9, abs=1e-5)
    assert table(document).row_count == 3
    assert len(summary(document)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["{}"], "no <id>.flac or <id>.wav with an <id>.rttm in", id="empty-folder"),
        pytest.param(["{}/none"], "no <id>.flac or <id>.wav with an <id>.rttm in", id="no-folder"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line_and_exit_1(tmp_path, capsys, arguments, message):
    assert evaluate.main([argument.format(tmp_path) for argument in arguments]) == 1
    assert message in capsys.readouterr().err
