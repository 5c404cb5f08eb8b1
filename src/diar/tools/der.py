"""Diarization error rate (DER): seconds missed, falsely found and confused, over seconds of reference speech.

Computed by pyannote.metrics with overlap scored, over the whole file. The collar here is what is cut out on
each side of a reference boundary (md-eval's ``-c``); pyannote.metrics calls twice that its collar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyannote.core import Annotation, Segment, Timeline
from pyannote.metrics.diarization import DiarizationErrorRate

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE
from diar.turns import Turn

_RESAMPLES = 1000
_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class Errors:
    """Seconds of reference speech (overlap counts once a speaker), and of each kind of error.

    >>> total = Errors(10.0, 1.0, 0.5, 0.5) + Errors(30.0, 1.0, 1.0, 0.0)
    >>> total.reference_s, total.der
    (40.0, 0.1)
    """

    reference_s: float = 0.0
    missed_s: float = 0.0
    false_alarm_s: float = 0.0
    confusion_s: float = 0.0

    @property
    def der(self) -> float:
        """The DER as a fraction; without any reference speech 0, or infinity if some was found."""
        wrong = self.missed_s + self.false_alarm_s + self.confusion_s
        return wrong / self.reference_s if self.reference_s else (np.inf if wrong else 0.0)

    def __add__(self, other: Errors) -> Errors:
        """Pool two files."""
        return Errors(
            self.reference_s + other.reference_s,
            self.missed_s + other.missed_s,
            self.false_alarm_s + other.false_alarm_s,
            self.confusion_s + other.confusion_s,
        )


def pool(files: Iterable[Errors]) -> Errors:
    """The errors of all files together."""
    return sum(files, Errors())


def score(
    reference: Sequence[Turn], hypothesis: Sequence[Turn], num_samples: int, collar_per_side_s: float
) -> Errors:
    """Compare turns over the first ``num_samples`` samples; speakers are mapped one to one, at best."""
    metric = DiarizationErrorRate(collar=2 * collar_per_side_s, skip_overlap=False)
    whole = Timeline([Segment(0, num_samples / SAMPLE_RATE)])
    parts = metric(_annotation(reference), _annotation(hypothesis), uem=whole, detailed=True)
    return Errors(parts["total"], parts["missed detection"], parts["false alarm"], parts["confusion"])


def map_speakers(reference: Sequence[Turn], hypothesis: Sequence[Turn], num_samples: int) -> dict[str, str]:
    """Found speaker to reference speaker, one to one, as the DER maps them; without those of no match."""
    whole = Timeline([Segment(0, num_samples / SAMPLE_RATE)])
    metric = DiarizationErrorRate()
    one, two = metric.uemify(_annotation(reference), _annotation(hypothesis), uem=whole)
    return dict(metric.optimal_mapping(one, two))


def der_interval(files: Sequence[Errors], seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap interval of the pooled DER: 1,000 draws of as many files, with replacement."""
    table = np.array(
        [
            [errors.missed_s + errors.false_alarm_s + errors.confusion_s, errors.reference_s]
            for errors in files
        ]
    )
    draws = np.random.default_rng(seed).integers(len(files), size=(_RESAMPLES, len(files)))
    wrong, reference = table[draws].sum(axis=1).T
    low, high = np.percentile(wrong / np.maximum(reference, 1e-9), _PERCENTILES)
    return float(low), float(high)


def read_rttm(path: Path) -> list[Turn]:
    """Read the SPEAKER lines of an RTTM file of one recording; empty turns are left out.

    Raises SetupError (E_RTTM) with the line that cannot be read.
    """
    turns = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise SetupError("E_RTTM", f"cannot read {path}: {err}") from None
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            onset, duration, speaker = float(fields[3]), float(fields[4]), fields[7]
            start, end = round(onset * SAMPLE_RATE), round((onset + duration) * SAMPLE_RATE)
            if start != end:
                turns.append(Turn(start, end, speaker))
        except (ValueError, IndexError) as err:
            raise SetupError("E_RTTM", f"{path}, line {number}: {err}") from None
    return turns


def _annotation(turns: Sequence[Turn]) -> Annotation:
    annotation = Annotation()
    for track, turn in enumerate(turns):
        annotation[Segment(turn.start / SAMPLE_RATE, turn.end / SAMPLE_RATE), track] = turn.speaker
    return annotation
