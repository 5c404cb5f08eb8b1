"""The figures of ``scale``: cost and memory against the length of a recording, as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

MODES = ("server", "blocks", "stream")


def row(
    mode: str, length_s: float, answer: Row, server_cpu_s: float, server_pss_mb: float, base_pss_mb: float
) -> dict[str, Any]:
    """One recording's figures. base_pss_mb: of the server before its first recording.

    >>> figures = row("blocks", 120.0, {"wall_s": 3.0, "cpu_s": 0.5, "peak_rss_mb": 200.0, "speakers": 2,
    ...     "turns": 9, "last_sample": 0, "result_sha256": "", "stages": {"blocks": 2.5}}, 3.5, 900.0, 850.0)
    >>> figures["wall_s_per_minute"], figures["cpu_s_per_minute"], figures["pcm_mb"]
    (1.5, 2.0, 3.84)
    """
    minutes = length_s / 60
    return {
        "mode": mode,
        "length_s": length_s,
        "wall_s_per_minute": round(answer["wall_s"] / minutes, 4),
        "cpu_s_per_minute": round((answer["cpu_s"] + server_cpu_s) / minutes, 4),
        "stages_s": {stage: round(seconds, 3) for stage, seconds in answer["stages"].items()},
        "speakers": answer["speakers"],
        "turns": answer["turns"],
        "last_sample": answer["last_sample"],
        "result_sha256": answer["result_sha256"],
        "client_peak_rss_mb": round(answer["peak_rss_mb"], 1),
        "server_peak_pss_mb": round(server_pss_mb, 1),
        "server_base_pss_mb": round(base_pss_mb, 1),
        "pcm_mb": round(length_s * 16_000 * 2 / 1e6, 2),
    }


def growth(rows: Sequence[Row]) -> dict[str, float]:
    """Wall seconds per minute of the longest recording over those of the shortest, by mode.

    >>> growth([{"mode": "blocks", "length_s": 60 * w, "wall_s_per_minute": w} for w in (2.0, 2.1)])
    {'blocks': 1.05}
    """
    found = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = sorted((row for row in rows if row["mode"] == mode), key=lambda row: row["length_s"])
        found[mode] = round(own[-1]["wall_s_per_minute"] / own[0]["wall_s_per_minute"], 3)
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The report as a Markdown table."""
    lines = [
        "| mode | length | speakers | wall s / min | CPU s / min | seconds by stage | server PSS MB (base)"
        " | over base / PCM | client RSS MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in row["stages_s"].items())
        over = (row["server_peak_pss_mb"] - row["server_base_pss_mb"]) / row["pcm_mb"]
        lines.append(
            f"| {row['mode']} | {shown_length(row['length_s'])} | {row['speakers']}"
            f" | {row['wall_s_per_minute']:.2f} | {row['cpu_s_per_minute']:.2f} | {stages}"
            f" | {row['server_peak_pss_mb']:.0f} ({row['server_base_pss_mb']:.0f})"
            f" | {over:.1f} | {row['client_peak_rss_mb']:.0f} |"
        )
    rates = ", ".join(f"{mode} × {rate:.2f}" for mode, rate in document["growth"].items())
    lines += [
        "",
        f"Wall seconds per minute, longest over shortest: {rates}. {document['what']}; {document['machine']};"
        f" {document['versions']}; commit {document['commit']}, {document['date']}.",
    ]
    return "\n".join(lines)


def shown_length(length_s: float) -> str:
    """A length as people say it.

    >>> shown_length(600), shown_length(36_000), shown_length(5_400)
    ('10 min', '10 h', '1.5 h')
    """
    return f"{length_s / 60:g} min" if length_s < 3600 else f"{length_s / 3600:g} h"


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw seconds per minute, and memory, against length."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (cost, memory) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = sorted((row for row in rows if row["mode"] == mode), key=lambda row: row["length_s"])
        hours = [row["length_s"] / 3600 for row in own]
        cost.plot(hours, [row["wall_s_per_minute"] for row in own], "o-", label=f"{mode}: whole")
        for stage in own[0]["stages_s"]:
            share = [60 * row["stages_s"].get(stage, 0.0) / row["length_s"] for row in own]
            cost.plot(hours, share, ".:", label=f"{mode}: {stage}")
        memory.plot(hours, [row["server_peak_pss_mb"] for row in own], "o-", label=f"{mode}: server, PSS")
        memory.plot(hours, [row["client_peak_rss_mb"] for row in own], "o:", label=f"{mode}: client, RSS")
    for axes, title in ((cost, "wall seconds per minute of audio"), (memory, "most memory, MB")):
        axes.set(xscale="log", xlabel="hours of audio", title=title)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
