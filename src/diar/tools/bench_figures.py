"""The figures of ``bench``: medians, spread and ratios of runs that took turns, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diar.tools.workers import Run

Row = dict[str, Any]


def turns_of(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Who runs when: everybody once a round, every other round backwards.

    >>> list(turns_of(["a", "b", "c"], 3))
    ['a', 'b', 'c', 'c', 'b', 'a', 'a', 'b', 'c']
    """
    for number in range(rounds):
        yield from (names if number % 2 == 0 else reversed(names))


def record(run: Run) -> Row:
    """One run as the report keeps it, without its turns."""
    return {
        "wall_s": round(run.wall_s, 3),
        "cpu_s": round(run.cpu_s, 3),
        "stages_s": {name: round(seconds, 3) for name, seconds in run.stages.items()},
    }


def summarise(name: str, runs: Sequence[Row], audio_s: float) -> Row:
    """One contestant's figures over its runs: medians.

    >>> runs = [{"wall_s": w, "cpu_s": 2 * w, "stages_s": {"x": w}} for w in (3.0, 1.0, 2.0)]
    >>> row = summarise("we", runs, 120.0)
    >>> row["wall_s"], row["wall_s_per_minute"], row["cpu_s_per_minute"], row["stages_s"]
    ({'median': 2.0, 'least': 1.0, 'most': 3.0}, 1.0, 2.0, {'x': 2.0})
    """
    minutes = audio_s / 60
    wall = [run["wall_s"] for run in runs]
    stages = {stage: [run["stages_s"].get(stage, 0.0) for run in runs] for stage in runs[0]["stages_s"]}
    return {
        "name": name,
        "wall_s": {"median": statistics.median(wall), "least": min(wall), "most": max(wall)},
        "wall_s_per_minute": round(statistics.median(wall) / minutes, 4),
        "cpu_s_per_minute": round(statistics.median(run["cpu_s"] for run in runs) / minutes, 4),
        "stages_s": {stage: round(statistics.median(values), 3) for stage, values in stages.items()},
        "runs": list(runs),
    }


def ratios(row: Row, others: Sequence[Row]) -> dict[str, dict[str, float]]:
    """How much of another contestant's median time one takes.

    >>> ratios({"name": "we", "wall_s_per_minute": 1.0, "cpu_s_per_minute": 3.0},
    ...        [{"name": "they", "wall_s_per_minute": 4.0, "cpu_s_per_minute": 4.0}])
    {'they': {'wall': 0.25, 'cpu': 0.75}}
    """
    return {
        other["name"]: {
            kind: round(row[f"{kind}_s_per_minute"] / other[f"{kind}_s_per_minute"], 3)
            for kind in ("wall", "cpu")
        }
        for other in others
        if other["name"] != row["name"]
    }


def with_earlier(runs: Mapping[str, list[Row]], earlier: Mapping[str, Any] | None) -> dict[str, list[Row]]:
    """The runs of an earlier report, then these, by contestant.

    >>> with_earlier({"a": [{"wall_s": 2}]}, {"contestants": [{"name": "a", "runs": [{"wall_s": 1}]}]})
    {'a': [{'wall_s': 1}, {'wall_s': 2}]}
    """
    known = {row["name"]: list(row["runs"]) for row in earlier["contestants"]} if earlier else {}
    return {name: known.get(name, []) + runs.get(name, []) for name in dict.fromkeys([*known, *runs])}


def markdown(document: Mapping[str, Any]) -> str:
    """The report as a Markdown table with what it was measured on."""
    rows = document["contestants"]
    peers = [name for name in document["peers"] if any(row["name"] == name for row in rows)]
    has_folder = any("folder_der" in row for row in rows)
    heads = ["", "wall s (least – most)", "wall s / min", "CPU s / min"]
    heads += [f"× {peer} (CPU)" for peer in peers]
    heads += ["peak MB", "DER % here", *(["DER % folder"] if has_folder else [])]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        wall = row["wall_s"]
        cells = [row["name"], f"{wall['median']:.1f} ({wall['least']:.1f} – {wall['most']:.1f})"]
        cells += [f"{row['wall_s_per_minute']:.2f}", f"{row['cpu_s_per_minute']:.2f}"]
        for peer in peers:
            ratio = row["ratios"].get(peer)
            cells.append(f"{ratio['wall']:.2f} ({ratio['cpu']:.2f})" if ratio else "1")
        cells += [f"{row['peak_mb']:.0f}", _percent(row.get("der"))]
        cells += [_percent(row.get("folder_der"))] if has_folder else []
        lines.append(cells)
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{table}\n\n{_stages(rows)}\n\n{describe(document)}"


def describe(document: Mapping[str, Any]) -> str:
    """What a report was measured on, in one paragraph."""
    least = min(len(row["runs"]) for row in document["contestants"])
    audio = document["audio"]
    text = (
        f"{audio['name']}, {audio['seconds'] / 60:.1f} min; medians of at least {least}"
        f" runs that took turns, {document['threads']} threads each, model load excluded;"
        f" memory over two runs of its own, each process at its peak, files once;"
        f" DER at collar 0, overlap scored."
        f" {document['machine']}; {document['versions']}; commit {document['commit']}, {document['date']}."
    )
    left_out = "".join(f" Left out: {name}, {reason}." for name, reason in document["left_out"].items())
    return text + left_out


def _stages(rows: Sequence[Row]) -> str:
    lines = ["Seconds by stage:"]
    for row in rows:
        seconds = ", ".join(
            f"{stage} {value:.2f}" for stage, value in row["stages_s"].items() if value >= 0.005
        )
        lines.append(f"- {row['name']}: {seconds or 'not told'}")
    return "\n".join(lines)


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.2f}"
