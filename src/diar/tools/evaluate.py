"""Score the diarization of every <id>.flac or <id>.wav of a folder against its <id>.rttm.

Prints, per file and pooled, the DER with its missed, false-alarm and confusion parts at collar 0 and at
0.25 s a side, overlap scored; speakers in the reference and found; seconds of compute per minute of audio.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from diar.errors import DiarError, SetupError
from diar.options import Options
from diar.profile import SAMPLE_RATE, load_profile
from diar.result import Diarization
from diar.tools.der import Errors, der_interval, pool, read_rttm, score
from diar.tools.utterances import AUDIO_SUFFIXES, Floats, read_audio
from diar.turns import Turn

COLLARS_PER_SIDE_S = (0.0, 0.25)

Diarize = Callable[[Floats, Options], Diarization]


@dataclass(frozen=True)
class FileScore:
    """One file. errors: one for each of COLLARS_PER_SIDE_S. seconds: of the diarization, wall time."""

    file_id: str
    duration_s: float
    reference_speakers: int
    found_speakers: int
    seconds: float
    errors: tuple[Errors, ...]
    lanes: dict[str, str]

    @property
    def speaker_error(self) -> int:
        """Speakers found less speakers in the reference."""
        return self.found_speakers - self.reference_speakers


def find_pairs(folder: Path) -> list[tuple[Path, Path]]:
    """The recordings of a folder that have a reference: (audio, rttm), sorted; SetupError if none."""
    pairs = [
        (audio, audio.with_suffix(".rttm"))
        for audio in sorted(folder.glob("*"))
        if audio.suffix.lower() in AUDIO_SUFFIXES and audio.with_suffix(".rttm").is_file()
    ]
    if not pairs:
        raise SetupError("E_FILE", f"no <id>.flac or <id>.wav with an <id>.rttm in {folder}")
    return pairs


def score_file(audio: Path, rttm: Path, diarize: Diarize, *, known_count: bool = False) -> FileScore:
    """Diarize one file and compare; known_count: tell it the reference's number of speakers."""
    samples, reference = read_audio(audio), read_rttm(rttm)
    speakers = len({turn.speaker for turn in reference})
    options = Options(num_speakers=speakers if known_count and speakers else None, file_id=audio.stem)
    began = time.perf_counter()
    found = diarize(samples, options)
    seconds = time.perf_counter() - began
    return FileScore(
        file_id=audio.stem,
        duration_s=len(samples) / SAMPLE_RATE,
        reference_speakers=speakers,
        found_speakers=len(found.speakers),
        seconds=seconds,
        errors=score_turns(reference, found.turns, len(samples)),
        lanes=found.lanes,
    )


def score_turns(
    reference: Sequence[Turn], hypothesis: Sequence[Turn], num_samples: int
) -> tuple[Errors, ...]:
    """The errors at each collar."""
    return tuple(score(reference, hypothesis, num_samples, collar) for collar in COLLARS_PER_SIDE_S)


def report(scores: Sequence[FileScore], profile: str) -> dict[str, Any]:
    """The scores as a JSON document; DERs and shares are fractions, times are seconds."""
    minutes = sum(score.duration_s for score in scores) / 60
    pooled = tuple(pool(column) for column in zip(*(score.errors for score in scores), strict=True))
    errors = [score.speaker_error for score in scores]
    return {
        "profile": profile,
        "lanes": scores[0].lanes,
        "overlap_scored": True,
        "files": [
            {
                "id": score.file_id,
                "duration": round(score.duration_s, 3),
                "speakers": {"reference": score.reference_speakers, "found": score.found_speakers},
                "seconds_per_minute": round(60 * score.seconds / score.duration_s, 3),
                "der": [_errors_document(*row) for row in zip(COLLARS_PER_SIDE_S, score.errors, strict=True)],
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
                _errors_document(collar, total)
                | {"interval": [round(x, 5) for x in der_interval([score.errors[i] for score in scores])]}
                for i, (collar, total) in enumerate(zip(COLLARS_PER_SIDE_S, pooled, strict=True))
            ],
        },
    }


def _errors_document(collar_per_side_s: float, errors: Errors) -> dict[str, Any]:
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
