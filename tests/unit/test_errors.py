"""The error tree: codes, messages, and words that survive a trip through Triton."""

import ast
from pathlib import Path

import pytest

from diar import errors
from diar.errors import DiarError, InternalError, InvalidAudio, SetupError, parse_error

SOURCES = sorted((Path(__file__).parents[2] / "src" / "diar").rglob("*.py"))
REPORTED = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DiarError) and kind not in (DiarError, SetupError)
}


def raised():
    """(class, word) of every ``SomeError("E_WORD", …)`` in the package."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REPORTED:
                yield node.func.id, node.args[0].value


@pytest.mark.parametrize(("kind", "word"), sorted(set(raised())))
def test_every_word_leads_back_to_the_class_that_it_was_raised_as(kind, word):
    error = parse_error(str(REPORTED[kind](word, "got 1, expected 2")))
    assert (type(error).__name__, error.word, error.text) == (kind, word, "got 1, expected 2")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("InvalidAudio", "INVALID_ARG"),
        ("InvalidOption", "INVALID_ARG"),
        ("Overloaded", "UNAVAILABLE"),
        ("NetsUnavailable", "UNAVAILABLE"),
        ("Cancelled", "CANCELLED"),
        ("InternalError", "INTERNAL"),
    ],
)
def test_the_class_decides_the_code(kind, code):
    assert REPORTED[kind].code == code


@pytest.mark.parametrize(
    "message",
    [
        "E_SPAN_LENGTH|got 3 samples | expected more",
        "diar_nn_g0 - E_SPAN_LENGTH|got 3 samples | expected more",
        "[400] E_SPAN_LENGTH|got 3 samples | expected more",
        "Failed to process the request(s), message: E_SPAN_LENGTH|got 3 samples | expected more",
    ],
)
def test_the_word_is_found_behind_what_triton_puts_in_front(message):
    error = parse_error(message)
    assert isinstance(error, InvalidAudio)
    assert error.text == "got 3 samples | expected more"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("", id="nothing"),
        pytest.param("E_SPAN_LENGTH", id="no-bar"),
        pytest.param("|E_SPAN_LENGTH", id="nothing-before-the-bar"),
        pytest.param(" |text", id="a-blank-before-the-bar"),
        pytest.param("E_UNHEARD_OF|text", id="unknown-word"),
        pytest.param("E_SPANISH|text", id="longer-word"),
        pytest.param("THE_SPAN|text", id="no-word"),
    ],
)
def test_other_messages_are_no_error_of_ours(message):
    assert parse_error(message) is None


def test_a_class_of_its_own_is_internal_by_default():
    assert DiarError.code == SetupError.code == InternalError.code == "INTERNAL"
