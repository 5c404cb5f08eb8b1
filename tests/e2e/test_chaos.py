"""A minute of kills and stops at random while clients are served by the real networks."""

from live import ROOT

from diar.tools import chaos


def test_a_minute_of_chaos_loses_nothing():
    own = [
        "--engines-dir",
        str(ROOT / "engines"),
        "--serve",
        str(ROOT / "scripts" / "serve"),
        "--minutes",
        "1",
    ]
    assert chaos.main([*own, "--", "--cpu", "--replicas", "2"]) == 0
