"""What a caller may ask for, and the names of what it may not."""

import pytest

from diar.errors import InvalidOption
from diar.options import MAX_FILE_ID_CHARACTERS, Options, clean_file_id


@pytest.mark.parametrize(
    ("parameters", "word", "texts"),
    [
        pytest.param({"speakers": 2}, "E_OPTION_UNKNOWN", ["speakers", "num_speakers"], id="unknown"),
        pytest.param({"num_speakers": "2"}, "E_OPTION_TYPE", ["'2'", "integer"], id="text-for-a-count"),
        pytest.param({"num_speakers": 2.0}, "E_OPTION_TYPE", ["2.0", "integer"], id="fraction-for-a-count"),
        pytest.param({"num_speakers": True}, "E_OPTION_TYPE", ["True", "integer"], id="flag-for-a-count"),
        pytest.param({"num_speakers": None}, "E_OPTION_TYPE", ["None", "integer"], id="nothing-for-a-count"),
        pytest.param({"timings": 1}, "E_OPTION_TYPE", ["timings", "true or false"], id="number-for-a-flag"),
        pytest.param({"file_id": 7}, "E_OPTION_TYPE", ["file_id", "string"], id="number-for-a-name"),
        pytest.param({"num_speakers": 0}, "E_OPTION_COUNT", ["num_speakers", "0", "1 to 100"], id="zero"),
        pytest.param({"min_speakers": -3}, "E_OPTION_COUNT", ["min_speakers", "-3"], id="negative"),
        pytest.param({"max_speakers": 1001}, "E_OPTION_COUNT", ["max_speakers", "1001"], id="a-slip"),
        pytest.param(
            {"min_speakers": 3, "max_speakers": 2}, "E_OPTION_CONFLICT", ["3 > ", "2"], id="min>max"
        ),
        pytest.param({"num_speakers": 2, "min_speakers": 2}, "E_OPTION_CONFLICT", ["bound"], id="exact+min"),
        pytest.param({"num_speakers": 2, "max_speakers": 2}, "E_OPTION_CONFLICT", ["bound"], id="exact+max"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(parameters, word, texts):
    with pytest.raises(InvalidOption) as caught:
        Options.from_parameters(parameters)
    assert caught.value.word == word
    assert all(text in caught.value.text for text in texts), caught.value.text


@pytest.mark.parametrize(
    ("parameters", "bounds", "requested"),
    [
        pytest.param({}, (1, None), None, id="no-wish"),
        pytest.param({"num_speakers": 4}, (4, 4), 4, id="exact"),
        pytest.param({"min_speakers": 2}, (2, None), {"min": 2, "max": None}, id="at-least"),
        pytest.param({"max_speakers": 5}, (1, 5), {"min": None, "max": 5}, id="at-most"),
        pytest.param({"min_speakers": 3, "max_speakers": 3}, (3, 3), {"min": 3, "max": 3}, id="both"),
    ],
)
def test_a_wish_becomes_bounds_and_is_repeated(parameters, bounds, requested):
    options = Options.from_parameters(parameters)
    assert (options.bounds, options.requested) == (bounds, requested)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("meeting-7.b", "meeting-7.b", id="kept"),
        pytest.param("a  b\tc\nd", "a_b_c_d", id="blanks"),
        pytest.param("\u00a0a\u2028b\u3000", "a_b", id="blanks-of-other-scripts"),
        pytest.param("a\x00b\x1bc", "a_b_c", id="control-characters"),
        pytest.param("Zürich/会議", "Zürich/会議", id="other-scripts"),
        pytest.param("", "recording", id="nothing"),
        pytest.param(" \n", "recording", id="blanks-only"),
        pytest.param("x" * 999, "x" * MAX_FILE_ID_CHARACTERS, id="too-long"),
        pytest.param("caf\udce9.wav", "caf_.wav", id="undecodable-file-name"),
    ],
)
def test_a_file_id_is_fit_for_rttm(text, expected):
    cleaned = clean_file_id(text)
    assert cleaned == expected == Options(file_id=text).file_id == clean_file_id(cleaned)
    assert len(f"SPEAKER {cleaned} 1".encode().split()) == 3
