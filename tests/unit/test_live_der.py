from itertools import pairwise

import numpy as np
import pytest
from scripted import ScriptedRunner

from diar.tools import evaluate
from diar.tools.der import Errors
from diar.tools.live_der import LATENCIES_S, live_lines, live_report, live_turns

SECOND = 16_000


def test_all_that_was_shown_is_there_once_for_each_latency(profile):
    samples = np.full(25 * SECOND, 3277, np.int16)
    runner = ScriptedRunner(profile)
    shown = live_turns(samples, profile, runner.run)
    assert list(shown) == list(LATENCIES_S)
    for turns in shown.values():
        ordered = sorted(turns)
        assert all(before.end == after.start for before, after in pairwise(ordered))
        assert ordered[-1].end > 24.9 * SECOND
    assert len(runner.calls) == 50  # windows are run once, not once a latency


def test_report_and_lines_name_latency_parts_and_collar():
    errors = (Errors(10, 1, 0.5, 0.5), Errors(8, 0.4, 0, 0))
    document = live_report([dict.fromkeys(LATENCIES_S, errors)] * 2)
    assert [row["latency"] for row in document] == [0.5, 1.0, 2.0, 5.0]
    assert document[0]["der"][0]["der"] == pytest.approx(0.2)
    lines = live_lines(document, document[0]["der"])
    assert lines[0] == (
        "live, 0.5 s late DER 20.00 % (miss/fa/conf 10.0/5.0/5.0) @0 s   "
        "DER  5.00 % (miss/fa/conf 5.0/0.0/0.0) @0.25 s"
    )
    assert lines[-1].startswith("final ")
    assert len(lines) == 5


def test_live_view_of_a_server_is_not_evaluated(tmp_path, capsys):
    for suffix in (".flac", ".rttm"):
        (tmp_path / f"a{suffix}").touch()
    assert evaluate.main([str(tmp_path), "--live", "--url", "grpc://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "error: --live runs in this process, not with --url\n"
