"""What an evaluation found: the score of each file, the pooled report, the table that a person reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from diar.tools.confidence import Judged
from diar.tools.der import Errors, der_interval, pool, score
from diar.turns import Turn

COLLARS_PER_SIDE_S = (0.0, 0.25)


@dataclass(frozen=True)
class FileScore:
    """One file.

    errors: one for each of COLLARS_PER_SIDE_S. judged: the turns found. seconds: of the diarization, wall
    time.
    """

    file_id: str
    duration_s: float
    reference_speakers: int
    found_speakers: int
    seconds: float
    errors: tuple[Errors, ...]
    judged: tuple[Judged, ...]
    profile: str
    lanes: dict[str, str]

    @property
    def speaker_error(self) -> int:
        """Speakers found less speakers in the reference."""
        return self.found_speakers - self.reference_speakers


def score_turns(
    reference: Sequence[Turn], hypothesis: Sequence[Turn], num_samples: int
) -> tuple[Errors, ...]:
    """The errors at each collar."""
    return tuple(score(reference, hypothesis, num_samples, collar) for collar in COLLARS_PER_SIDE_S)


def report(scores: Sequence[FileScore]) -> dict[str, Any]:
    """The scores as a JSON document; DERs and shares are fractions, times are seconds."""
    minutes = sum(score.duration_s for score in scores) / 60
    pooled = tuple(pool(column) for column in zip(*(score.errors for score in scores), strict=True))
    errors = [score.speaker_error for score in scores]
    return {
        "profile": scores[0].profile,
        "lanes": scores[0].lanes,
        "overlap_scored": True,
        "files": [
            {
                "id": score.file_id,
                "duration": round(score.duration_s, 3),
                "speakers": {"reference": score.reference_speakers, "found": score.found_speakers},
                "seconds_per_minute": round(60 * score.seconds / score.duration_s, 3),
                "der": [errors_document(*row) for row in zip(COLLARS_PER_SIDE_S, score.errors, strict=True)],
            }
            for score in scores
        ],
        "pooled": {
            "duration": round(60 * minutes, 3),
            "speakers": {
                "mean_error": round(sum(errors) / len(errors), 3),
                "mean_absolute_error": round(sum(map(abs, errors)) / len(errors), 3),
            },
            "seconds_per_minute": round(sum(score.seconds for score in scores) / minutes, 3),
            "der": [
                errors_document(collar, total)
                | {"interval": [round(x, 5) for x in der_interval([score.errors[i] for score in scores])]}
                for i, (collar, total) in enumerate(zip(COLLARS_PER_SIDE_S, pooled, strict=True))
            ],
        },
    }


def errors_document(collar_per_side_s: float, errors: Errors) -> dict[str, Any]:
    """Errors at one collar, as shares of the reference's speech; None where there is none of it."""

    def share(seconds: float) -> float | None:
        return round(seconds / errors.reference_s, 5) if errors.reference_s else None

    return {
        "collar_per_side": collar_per_side_s,
        "reference": round(errors.reference_s, 3),
        "der": round(errors.der, 5) if errors.reference_s else None,
        "missed": share(errors.missed_s),
        "false_alarm": share(errors.false_alarm_s),
        "confusion": share(errors.confusion_s),
    }


def table(document: dict[str, Any]) -> Table:
    """The report as a table, at most 100 columns wide; percentages of the reference's speech."""
    grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    grid.add_column("recording", overflow="ellipsis", max_width=24, no_wrap=True)
    grid.add_column("min", justify="right")
    for collar in COLLARS_PER_SIDE_S:
        grid.add_column(f"DER % @{collar:g} s", justify="right", no_wrap=True)
        grid.add_column("miss/fa/conf", justify="right", no_wrap=True)
    grid.add_column("spk", justify="right", no_wrap=True)
    grid.add_column("s/min", justify="right", no_wrap=True)
    for row in document["files"]:
        speakers = f"{row['speakers']['reference']}→{row['speakers']['found']}"
        grid.add_row(row["id"], *_cells(row), speakers, f"{row['seconds_per_minute']:.2f}")
    pooled = document["pooled"]
    count = f"±{pooled['speakers']['mean_absolute_error']:.2f}"
    seconds = f"{pooled['seconds_per_minute']:.2f}"
    grid.add_section()
    grid.add_row("pooled", *_cells(pooled), count, seconds, style="bold")
    return grid


def summary(document: dict[str, Any]) -> list[str]:
    """The lines below the table: what the figures are, and how sure."""
    pooled = document["pooled"]
    lines = [
        f"DER {100 * row['der']:.2f} % (95 % bootstrap over files: {100 * row['interval'][0]:.1f} to "
        f"{100 * row['interval'][1]:.1f}), collar {row['collar_per_side']:g} s a side, overlap scored"
        for row in pooled["der"]
        if row["der"] is not None
    ]
    lanes = ", ".join(f"{network} {lane}" for network, lane in document["lanes"].items())
    return [
        *lines,
        f"speakers found - in the reference: mean {pooled['speakers']['mean_error']:+.2f}, "
        f"mean |error| {pooled['speakers']['mean_absolute_error']:.2f}",
        f"{pooled['seconds_per_minute']:.2f} s of compute per minute of audio; "
        f"profile {document['profile']}; {lanes}",
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    cells = [f"{row['duration'] / 60:.1f}"]
    for part in row["der"]:
        if part["der"] is None:
            cells += ["-", "no speech"]
            continue
        kinds = "/".join(f"{100 * part[kind]:.1f}" for kind in ("missed", "false_alarm", "confusion"))
        cells += [f"{100 * part['der']:.1f}", kinds]
    return cells
