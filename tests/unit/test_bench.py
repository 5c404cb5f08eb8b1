"""The bench: who takes turns with whom, what the figures are, what the command line takes."""

import json
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from diar.errors import SetupError
from diar.profile import load_profile
from diar.tools import peers
from diar.tools.bench import der_of, measure_alone, parse_arguments, take_turns
from diar.tools.bench_figures import markdown, ratios, record, summarise, turns_of, with_earlier
from diar.tools.bench_serving import overheads, serving_text, throughput
from diar.tools.bench_setting import Material, Ours
from diar.tools.process_cost import peak_mb
from diar.tools.scale import parse_arguments as parse_scale
from diar.tools.scale import write_recording
from diar.tools.scale_figures import growth, plot, row, shown_length
from diar.tools.scale_figures import markdown as scale_markdown
from diar.tools.workers import Run, working
from diar.turns import Turn

ECHO = """
import json, sys
print(json.dumps({"load_s": 0.5}), flush=True)
for line in sys.stdin:
    answer = {"wall_s": 2.0, "cpu_s": 3.0, "stages": {"a": 1.0}, "turns": [[0.5, 0.5, 7]]}
    print(json.dumps(answer), flush=True)
"""


class Scripted:
    """A contestant whose runs take what it is told, one after the other."""

    load_s = 0.0

    def __init__(self, name, walls, calls):
        self.name, self._walls, self._calls = name, list(walls), calls

    def run(self, audio):
        self._calls.append(self.name)
        return Run(self._walls.pop(0), 1.0, {"all": 1.0}, (Turn(0, 16_000, "x"),))

    def processes(self):
        return [psutil.Process()]


def recording(end=32_000):
    return Material("talk", Path("talk.wav"), 32_000, (Turn(0, end, "a"),))


def document(**more):
    runs = {"we fp32 process": [2.0, 1.0, 3.0], "senko": [8.0, 4.0, 6.0]}
    rows = [
        summarise(name, [record(Run(w, 2 * w, {"fbank": w})) for w in walls], 60.0)
        for name, walls in runs.items()
    ]
    for each in rows:
        each |= {"der": 0.1, "peak_mb": 100.0, "ratios": ratios(each, rows[1:])}
    base = {"commit": "abc", "date": "2026-11-30", "machine": "a machine", "versions": "v 1", "threads": 2}
    audio = {"name": "talk", "seconds": 60.0}
    return {**base, "audio": audio, "peers": ["senko"], "left_out": {}, "contestants": rows, **more}


def test_everybody_runs_once_a_round_and_follows_somebody_else_each_time():
    calls = []
    contestants = [Scripted(name, [1.0, 2.0, 3.0], calls) for name in "abc"]
    runs = take_turns(contestants, recording(), 3)
    assert "".join(calls) == "abccbaabc"
    assert [run.wall_s for run in runs["b"]] == [1.0, 2.0, 3.0]
    assert list(turns_of(["a"], 2)) == ["a", "a"]


def test_figures_are_medians_spread_and_ratios():
    ours, theirs = document()["contestants"]
    assert ours["wall_s"] == {"median": 2.0, "least": 1.0, "most": 3.0}
    assert (ours["wall_s_per_minute"], ours["cpu_s_per_minute"]) == (2.0, 4.0)
    assert ours["ratios"] == {"senko": {"wall": 0.333, "cpu": 0.333}}
    assert theirs["ratios"] == {}


def test_the_table_has_ratios_der_stages_and_what_was_left_out():
    text = markdown(document(left_out={"sherpa-onnx": "no wheel"}))
    assert "| we fp32 process | 2.0 (1.0 – 3.0) | 2.00 | 4.00 | 0.33 (0.33) | 100 | 10.00 |" in text
    assert "- we fp32 process: fbank 2.00" in text
    assert "at least 3 runs" in text
    assert "commit abc" in text
    assert "Left out: sherpa-onnx, no wheel." in text
    assert "DER % folder" not in text


def test_runs_are_added_to_those_of_an_earlier_report():
    earlier = document()
    both = with_earlier({"senko": [{"wall_s": 9.0}], "new": [{"wall_s": 1.0}]}, earlier)
    assert [run["wall_s"] for run in both["senko"]] == [8.0, 4.0, 6.0, 9.0]
    assert list(both) == ["we fp32 process", "senko", "new"]


def test_der_is_pooled_over_recordings():
    contestant = Scripted("a", [1.0, 1.0], [])
    assert der_of(contestant, [recording(), recording(16_000)]).der == pytest.approx(1 / 3)


def test_memory_is_measured_alone_and_the_folder_scored_but_not_twice():
    @contextmanager
    def way(name):
        yield Scripted(name, [1.0, 1.0, 1.0], [])

    alone = {
        name: measure_alone(name, partial(way, name), recording(), [recording()])
        for name in ("x process", "x grpc")
    }
    peak = alone["x process"].pop("peak_mb")
    assert peak == pytest.approx(peak_mb([psutil.Process()]), rel=0.2)
    assert alone["x process"] == {"load_s": 0.0, "folder_der": 0.5}
    assert "folder_der" not in alone["x grpc"]


def test_our_ways_are_every_profile_lane_and_way():
    options = parse_arguments(
        ["talk.wav", "--profiles", "x,/tmp/y.toml", "--lanes", "exact", "--replicas", "2"]
    )
    names = [way.name for way in Ours.all(options)]
    assert names == ["x exact process", "x exact grpc ×2", "y exact process", "y exact grpc ×2"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param([], "--speakers DIR", id="no-recording"),
        pytest.param(["a.wav", "--lanes", "openvino:int8"], "openvino:fp32", id="unknown-lane"),
        pytest.param(["a.wav", "--peers", "whisper"], "senko", id="unknown-peer"),
        pytest.param(["a.wav", "--runs", "0"], "at least 1", id="no-runs"),
        pytest.param(["a.wav", "--add"], "--json FILE with a report", id="nothing-to-add-to"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments, text, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(arguments)
    assert text in capsys.readouterr().err


def test_a_worker_is_asked_and_answers():
    with working("echo", [sys.executable, "-c", ECHO]) as worker:
        run = worker.run(Path("talk.wav"))
        assert peak_mb(worker.processes()) > 1
    assert (worker.load_s, run.wall_s, run.cpu_s, run.stages) == (0.5, 2.0, 3.0, {"a": 1.0})
    assert run.turns == (Turn(8_000, 8_001, "7"),)  # an empty turn is a sample long


def test_a_worker_that_ends_is_named_with_its_last_words():
    ending = working("peer", [sys.executable, "-c", "raise SystemExit('no network')"])
    with pytest.raises(SetupError, match="peer ended: no network"), ending:
        pass


def test_a_peer_that_cannot_be_installed_is_an_error_with_pips_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(
        peers, "_call", lambda name, arguments: peers.fail(name, "a\nERROR: No matching one\n")
    )
    with pytest.raises(SetupError, match="senko cannot be installed: ERROR: No matching one"):
        peers.make_environment("senko", tmp_path)


def test_an_environment_that_is_there_is_kept(tmp_path):
    home = tmp_path / "senko"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").touch()
    (home / ".requirements").write_text("\n".join(peers.REQUIREMENTS["senko"]))
    assert peers.make_environment("senko", tmp_path) == home / "bin" / "python"


def test_overhead_and_throughput_are_of_medians():
    rows = [
        {"name": n, "wall_s_per_minute": w, "cpu_s_per_minute": w}
        for n, w in (("in process", 2.0), ("http", 3))
    ]
    assert overheads(rows) == {"http": {"wall": 0.5, "cpu": 0.5}}
    found = throughput({1: [10.0], 2: [8.0, 20.0, 10.0]}, 100.0)
    assert [each["of_one_after_another"] for each in found] == [1.0, 1.0]
    rows = document()["contestants"]
    text = serving_text(
        document(
            what="x fp32",
            replicas=1,
            overhead={"senko": {"wall": 0.034, "cpu": -0.1}},
            throughput=found,
            recordings={"number": 8, "seconds": 120.0},
        )
    )
    assert "| senko | 6.00 | 12.00 | +3.4 % | -10.0 % |" in text
    assert "8 recordings of 120 s" in text


def scale_rows():
    answer = {
        "cpu_s": 1.0,
        "peak_rss_mb": 90.0,
        "speakers": 2,
        "turns": 9,
        "last_sample": 5,
        "result_sha256": "",
        "stages": {"blocks": 1.0},
    }
    lengths = ((600.0, 30.0), (3600.0, 216.0))
    return [
        row(mode, s, answer | {"wall_s": w}, 2.0, 500.0, 400.0)
        for mode in ("server", "blocks")
        for s, w in lengths
    ]


def test_scale_says_how_cost_grows_and_draws_it(tmp_path):
    rows = scale_rows()
    assert growth(rows) == {"server": 1.2, "blocks": 1.2}
    plot(rows, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 10_000
    text = scale_markdown({**document(), "rows": rows, "growth": growth(rows), "what": "talk"})
    assert "| blocks | 1 h | 2 | 3.60 | 0.05 | blocks 1.0 | 500 (400) | 0.9 | 90 |" in text
    assert shown_length(36_000) == "10 h"


def test_a_recording_is_repeated_to_a_length(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.arange(16_000, dtype=np.int16), 16_000, subtype="PCM_16")
    options = parse_scale(["--audio", str(tmp_path / "a.wav"), "--lengths", "2.5", "--", "--cpu"])
    samples, _ = soundfile.read(write_recording(options, 2.5, tmp_path), dtype="int16")
    np.testing.assert_array_equal(samples, np.arange(40_000) % 16_000)
    assert (options.more, options.modes) == (["--cpu"], ["server", "blocks"])


def test_the_two_tier_profile_is_the_default_one_but_for_its_variant_and_what_hangs_on_it():
    two_tier, default = load_profile("pyannote_campplus_two_tier"), load_profile("pyannote_campplus")
    as_default = json.loads(
        json.dumps(_builtins(two_tier)).replace("pyannote_campplus_two_tier", "pyannote_campplus")
    )
    as_default["embedding"]["variant"] = "span"
    as_default["bf16_accepted"] = default.bf16_accepted
    # spans hold what others say around a voice: docs/decisions/2026-11-30-splitting.md
    as_default["clustering"] |= {"vmax": 15.0, "precut_cosine": 0.75}
    assert as_default == _builtins(default)


def _builtins(profile):
    import msgspec

    return msgspec.to_builtins(profile)
