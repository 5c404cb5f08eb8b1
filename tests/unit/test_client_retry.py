import asyncio

import pytest
from diar_client.failures import ServerUnreachable
from diar_client.retry import Deadline, Patience, persist

from diar.errors import Cancelled, InvalidAudio, NetsUnavailable, Overloaded

QUICK = Patience(retries=3, first_wait_s=0.001)


class Answers:
    """An attempt that raises or returns what it was given, in turn; keeps the seconds it was told."""

    def __init__(self, *answers):
        self._answers = iter(answers)
        self.left_s = []

    async def __call__(self, left_s):
        self.left_s.append(left_s)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(attempt, timeout_s=None, patience=QUICK):
    return asyncio.run(persist(attempt, Deadline(timeout_s), patience, "grpc://h:1"))


@pytest.mark.parametrize("kind", [Overloaded, NetsUnavailable, ServerUnreachable])
def test_what_may_succeed_later_is_tried_again(kind):
    attempt = Answers(kind("E_X", "1"), kind("E_X", "2"), "done")
    assert run(attempt) == "done"
    assert attempt.left_s == [None, None, None]


def test_other_errors_are_raised_at_once():
    attempt = Answers(InvalidAudio("E_AUDIO", ""), "never")
    with pytest.raises(InvalidAudio):
        run(attempt)
    assert len(attempt.left_s) == 1


def test_last_error_is_raised_when_retries_run_out():
    attempt = Answers(*(Overloaded("E_OVERLOADED", str(index)) for index in range(9)))
    with pytest.raises(Overloaded, match="3"):
        run(attempt)
    assert len(attempt.left_s) == 1 + QUICK.retries


def test_no_retry_when_the_wait_would_outlast_the_deadline():
    attempt = Answers(Overloaded("E_OVERLOADED", ""), "never")
    with pytest.raises(Overloaded):
        run(attempt, timeout_s=1, patience=Patience(first_wait_s=60, longest_wait_s=60))
    assert 0 < attempt.left_s[0] <= 1


def test_deadline_that_has_passed_sends_nothing():
    attempt = Answers("never")
    with pytest.raises(Cancelled, match="E_CANCELLED_DEADLINE"):
        run(attempt, timeout_s=0)
    assert attempt.left_s == []


def test_waits_grow_and_are_bounded():
    patience = Patience(first_wait_s=0.5, longest_wait_s=8)
    for failures, middle in enumerate([0.5, 1, 2, 4, 8, 8, 8]):
        assert 0.75 * middle <= patience.wait_s(failures) <= 1.25 * middle
