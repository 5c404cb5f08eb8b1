"""Known voices: files, matching, names in results."""

from dataclasses import replace

import numpy as np
import pytest
from diar_client.voices import (
    CLEARLY,
    CLOSE,
    check_voices,
    load_voices,
    make_voice,
    match,
    name_speakers,
    save_voice,
)

from diar.errors import InvalidOption, SetupError
from diar.profile import load_profile
from diar.result import Diarization, Speaker
from diar.turns import Turn


def diarization(embeddings, speech=(16_000, 32_000, 48_000)):
    labels = [f"SPEAKER_{row:02d}" for row in range(len(embeddings))]
    turns = tuple(Turn(16_000 * row, 16_000 * row + 8_000, label) for row, label in enumerate(labels))
    return Diarization(
        num_samples=160_000,
        profile="pyannote_campplus",
        lanes={},
        requested=None,
        note="",
        turns=turns,
        exclusive_turns=turns,
        speakers=tuple(Speaker(label, speech[row], 0.9) for row, label in enumerate(labels)),
        embeddings=np.asarray(embeddings, np.float32),
    )


def vector(*parts):
    """(192,) of length 1 that begins with ``parts``; the rest of its length lies in the last dimension."""
    full = np.zeros(192)
    full[: len(parts)] = parts
    full[-1] = np.sqrt(max(0.0, 1 - full @ full))
    return full


@pytest.fixture
def anna():
    return make_voice("Anna Smith", [diarization([vector(1)])])


def test_voice_is_of_who_speaks_most_in_each_recording():
    first = diarization([vector(1), vector(0, 1)], speech=(64_000, 32_000))
    second = diarization([vector(0, 0, 1)], speech=(16_000,))
    voice = make_voice("Anna", [first, second])
    assert voice.seconds == 5
    assert np.allclose(voice.embedding, (4 * vector(1) + vector(0, 0, 1)) / np.sqrt(17))
    assert voice.weights == load_profile(voice.profile).embedding.weights.sha256


def test_voice_file_is_read_back(anna, tmp_path):
    path = save_voice(anna, str(tmp_path / "new"))
    assert path.name == "Anna Smith.voice.json"
    assert load_voices(str(tmp_path / "new")) == [anna]


def test_name_stays_in_its_folder(anna, tmp_path):
    voice = make_voice("../Bo/..", [diarization([vector(1)])])
    assert save_voice(voice, str(tmp_path)) == tmp_path / "_.._Bo_...voice.json"
    assert load_voices(str(tmp_path))[0].name == "../Bo/.."


@pytest.mark.parametrize("name", ["", " Anna", "An\nna", "x" * 101])
def test_name_that_cannot_be_written_is_refused(name):
    with pytest.raises(InvalidOption, match="E_OPTION_NAME"):
        make_voice(name, [diarization([vector(1)])])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(lambda text: text[:-9], "no voice file", id="cut-off"),
        pytest.param(lambda text: text.replace(b'"schema": 1', b'"schema": 9'), "schema 9", id="schema"),
        pytest.param(
            lambda text: text.replace(b'"embedding": [', b'"embedding": [ 2.0,'), "2.24 long", id="length"
        ),
        pytest.param(lambda text: text.replace(b'"name"', b'"who"'), "who", id="key"),
    ],
)
def test_file_that_is_no_voice_is_named(anna, tmp_path, change, text):
    path = save_voice(anna, str(tmp_path))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SetupError, match=rf"Anna Smith.voice.json: .*{text}"):
        load_voices(str(tmp_path))


def test_folder_without_voices_and_a_name_twice_are_refused(anna, tmp_path):
    with pytest.raises(SetupError, match="no voices"):
        load_voices(str(tmp_path / "nowhere"))
    path = save_voice(anna, str(tmp_path))
    path.with_name("copy.voice.json").write_bytes(path.read_bytes())
    with pytest.raises(SetupError, match="another file"):
        load_voices(str(tmp_path))


def test_voice_of_other_networks_is_refused(anna, profile):
    check_voices([anna], profile)
    for other in ({"profile": "span16"}, {"weights": "0" * 64}):
        voice = type(anna)(**{**{f: getattr(anna, f) for f in anna.__struct_fields__}, **other})
        with pytest.raises(InvalidOption, match=r"the voice of Anna Smith is of profile .*: enroll it again"):
            check_voices([voice], profile)


@pytest.mark.parametrize(
    ("cosine", "found"),
    [
        pytest.param([[CLOSE + 0.01]], {0: 0}, id="close"),
        pytest.param([[CLOSE - 0.01]], {}, id="not-close"),
        pytest.param([[0.9, 0.1], [0.1, 0.8]], {0: 0, 1: 1}, id="two"),
        pytest.param([[0.9, 0.9 - CLEARLY + 0.01]], {}, id="two-voices-alike"),
        pytest.param([[0.9], [0.9 - CLEARLY + 0.01]], {}, id="two-speakers-alike"),
        pytest.param([[0.9], [0.9 - CLEARLY - 0.01]], {0: 0}, id="the-closer-speaker"),
    ],
)
def test_match_is_close_and_beyond_doubt(cosine, found):
    assert {row: column for row, (column, _) in match(np.array(cosine)).items()} == found


def test_known_speakers_carry_names_and_scores(anna):
    result = diarization([vector(0.1, 0.9), vector(0.8), vector(0, 0, 0.5)])
    named = name_speakers(result, [anna, make_voice("Bo", [diarization([vector(0, 1)])])])
    assert [turn.speaker for turn in named.turns] == ["Bo", "Anna Smith", "SPEAKER_02"]
    assert [turn.speaker for turn in named.exclusive_turns] == ["Bo", "Anna Smith", "SPEAKER_02"]
    assert [s.voice_score for s in named.speakers] == [pytest.approx(0.9), pytest.approx(0.8), None]
    assert [s.get("voice_score") for s in named.document()["speakers"]] == [0.9, 0.8, None]
    assert " Anna_Smith " in named.to_rttm()
    again = Diarization.from_json(named.to_json(), named.embeddings)
    assert [(s.label, s.voice_score) for s in again.speakers] == [
        ("Bo", 0.9),
        ("Anna Smith", 0.8),
        ("SPEAKER_02", None),
    ]


def test_nothing_changes_without_voices_or_speakers(anna):
    result = diarization([vector(1)])
    assert name_speakers(result, []) is result
    empty = replace(diarization([]), embeddings=np.zeros((0, 192), np.float32))
    assert name_speakers(empty, [anna]) is empty
