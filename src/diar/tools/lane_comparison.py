"""How far a lane is from the reference over many blocks: figures, limits, table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from diar.pipeline import BlockResult
from diar.profile import LaneLimits
from diar.tools.der import Errors, pool
from diar.tools.scores import COLLARS_PER_SIDE_S

MILLION = 1e6
MOST_CHANGED = 0.05  # of a window's frames: with more of them changed its embeddings are of something else


@dataclass
class Comparison:
    """Sums over the blocks that one lane and the reference have both run.

    least_speech_s: embeddings are compared of local speakers that have this much clean speech, and so are
    clustered; those of less speech lean on every frame. They are compared where nearly all frames of a
    window are the same: a local speaker that only one of the lanes splits is among the changed frames.
    """

    least_speech_s: float
    values: int = 0
    delta_sum: float = 0.0
    delta_max: float = 0.0
    frames: int = 0
    changed: int = 0
    cosines: list[float] = field(default_factory=list)

    def add(self, lane: BlockResult, reference: BlockResult) -> None:
        """Compare the answers to one block."""
        delta = np.abs(lane.logits - reference.logits)
        self.values += delta.size
        self.delta_sum += float(delta.sum(dtype=np.float64))
        self.delta_max = max(self.delta_max, float(delta.max()))
        differs = lane.logits.argmax(axis=-1) != reference.logits.argmax(axis=-1)
        self.frames += differs.size
        self.changed += int(differs.sum())
        same = differs.mean(axis=1) <= MOST_CHANGED
        enough = same[:, None] & (np.minimum(lane.speech, reference.speech) >= self.least_speech_s)
        for ours, theirs in [
            (lane.embeddings, reference.embeddings),
            (lane.pure_embeddings, reference.pure_embeddings),
        ]:
            rows = enough & ours.any(axis=-1) & theirs.any(axis=-1)
            self.cosines += cosines(ours[rows], theirs[rows]).tolist()

    def figures(self) -> dict[str, float | int | None]:
        """What is reported; None where there was nothing to compare."""
        return {
            "delta_max": self.delta_max,
            "delta_mean": self.delta_sum / max(1, self.values),
            "changed_frames": MILLION * self.changed / max(1, self.frames),
            "cosine_min": min(self.cosines, default=None),
            "cosine_mean": sum(self.cosines) / len(self.cosines) if self.cosines else None,
            "embeddings": len(self.cosines),
        }


def cosines(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Cosine of each row to the other's: (row, dim), (row, dim) to (row,); no row may be zero.

    >>> cosines(np.float32([[1, 0], [3, 4]]), np.float32([[2, 0], [4, 3]])).round(2).tolist()
    [1.0, 0.96]
    """
    one, two = ours.astype(np.float64), theirs.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    result: npt.NDArray[np.float64] = (one * two).sum(axis=1) / lengths
    return result


def pooled_der(files: Sequence[tuple[Errors, ...]]) -> list[float]:
    """DER of all files at each of COLLARS_PER_SIDE_S; empty without any reference."""
    return [pool(column).der for column in zip(*files, strict=True)]


def faults(row: dict[str, Any], reference_der: Sequence[float], limits: LaneLimits | None) -> list[str]:
    """In what a lane's row is beyond the profile's limits; a lane without limits has none."""
    if limits is None:
        return []
    found = []
    for key, limit, direction in [
        ("changed_frames", limits.changed_frames, 1),
        ("cosine_min", limits.cosine_min, -1),
        ("cosine_mean", limits.cosine_mean, -1),
    ]:
        value = row[key]
        if value is not None and not direction * value <= direction * limit:
            found.append(f"{key} {value:.6g}, expected at {'most' if direction > 0 else 'least'} {limit:g}")
    for collar, ours, theirs in zip(COLLARS_PER_SIDE_S, row["der"], reference_der, strict=False):
        if not ours - theirs <= limits.der_difference:
            more = f"{100 * (ours - theirs):.2f} points of DER more at a collar of {collar:g} s a side"
            found.append(f"{more}, expected at most {100 * limits.der_difference:g}")
    return found


def markdown(document: dict[str, Any]) -> str:
    """The document as a table, with a line on what was run."""
    rows = document["lanes"]
    reference = rows[0]
    heads = ["lane", "largest Δ", "mean Δ", "changed frames per million", "cosine min", "mean"]
    for collar in COLLARS_PER_SIDE_S[: len(reference["der"])]:
        heads += [f"DER % @{collar:g} s", "Δ"]
    heads += ["ms per block", "verdict"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [row["lane"]]
        if row["lane"] == reference["lane"]:
            cells += ["reference", *[""] * 4]
        else:
            cells += [f"{row['delta_max']:.2g}", f"{row['delta_mean']:.2g}", f"{row['changed_frames']:.0f}"]
            cells += ["" if row[key] is None else f"{row[key]:.6f}" for key in ("cosine_min", "cosine_mean")]
        for ours, theirs in zip(row["der"], reference["der"], strict=True):
            cells += [f"{100 * ours:.2f}", f"{100 * (ours - theirs):+.2f}"]
        lines.append("| " + " | ".join([*cells, f"{row['ms_per_block']:.0f}", row["verdict"]]) + " |")
    for name, reason in document["not_available"].items():
        lines.append(f"| {name} | " + " | ".join(["not run", reason, *[""] * (len(heads) - 3)]) + " |")
    return "\n".join([*lines, "", _footnote(document)])


def _footnote(document: dict[str, Any]) -> str:
    threads = document["threads"] or "all"
    what = (
        "Δ of log-probabilities, absolute; frames whose class differs; cosines of embeddings of local"
        f" speakers with at least {document['least_speech_s']:g} s of clean speech, in windows where at most"
        f" {MOST_CHANGED:.0%} of the frames differ; DER with overlap scored,"
        f" collar a side as printed; a block of {document['windows_per_block']} windows, the fastest of"
        f" {document['repeats']} runs, on {document['device']}, {threads} threads"
    )
    audio = f"{document['recordings']} recordings, {document['minutes']:.1f} min"
    return f"Profile {document['profile']}, {audio}. {what}. {document['versions']}. {document['date']}."
