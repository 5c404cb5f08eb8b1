"""The board: what one process writes, another one sees."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from diar.board import BROKEN, Board, Work
from diar.serving.breaker import Breaker


@pytest.fixture
def board(tmp_path):
    return Board.create(tmp_path / "board", log_json=True)


def test_folder_with_settings_is_a_board_and_another_is_none(board, tmp_path):
    assert Board.find(board.folder) == board
    assert Board.find(tmp_path) is None


def test_first_report_stays_until_it_is_settled(board):
    assert board.trouble("a") is None
    board.report("a", "first")
    board.report("a", "second")
    assert board.trouble("a") == "first"
    board.give_up("a", "no weights")
    assert board.trouble("a") == BROKEN + "no weights"
    board.settle("a")
    board.settle("a")
    assert board.trouble("a") is None


def test_without_its_supervisor_nobody_waits_for_a_model(board):
    board.report("a", "killed")
    assert board.is_kept
    assert not Breaker(board).is_hopeless("a")
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but not yet waited for
    orphan = replace(board, keeper=process.pid)
    assert not orphan.is_kept
    process.wait()
    assert not orphan.is_kept
    assert Breaker(orphan).is_hopeless("a")
    assert not Breaker(orphan).is_hopeless("b")


def test_work_is_seen_while_there_is_a_job(board):
    work = board.work("a")
    assert not board.at_work("a")
    with work.job(), work.job():
        assert board.at_work("a")
        assert board.last_sign("a", os.getpid()) is not None
    assert not board.at_work("a")
    assert board.last_sign("a", os.getpid()) is None


def test_sign_is_renewed_when_work_gets_on(board):
    with board.work("a").job() as get_on:
        os.utime(board.folder / "busy" / f"a.{os.getpid()}", (1, 1))
        get_on()
        assert board.last_sign("a", os.getpid()) > 1


def test_work_without_a_board_leaves_no_sign():
    with Work(None).job() as get_on:
        get_on()


def test_clear_takes_down_what_is_said_of_models_only(board):
    board.report("a", "dead")
    board.drain()
    with board.work("a").job():
        board.clear()
        assert not board.at_work("a")
    assert board.trouble("a") is None
    assert board.draining
