"""The answer for one recording, and its JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from diar.profile import SAMPLE_RATE
from diar.turns import Turn, seconds, to_rttm

SCHEMA = 1


@dataclass(frozen=True)
class Speaker:
    """One speaker of the recording. speech: samples; confidence: 0 to 1.

    voice_score: where the label is the name of a known voice, the cosine to it.
    """

    label: str
    speech: int
    confidence: float
    voice_score: float | None = None


@dataclass(frozen=True)
class Diarization:
    """Who spoke when in one recording of ``num_samples`` samples.

    turns may overlap; exclusive_turns never do. embeddings: (speaker, dim) float32, the unit centroid of
    each speaker, row i for label i. requested, note: the wish for a number of speakers, and why it could not
    be met ("" if it was). lanes: network -> lane that ran it. timings: stage -> seconds.
    """

    num_samples: int
    profile: str
    lanes: dict[str, str]
    requested: int | dict[str, int | None] | None
    note: str
    turns: tuple[Turn, ...]
    exclusive_turns: tuple[Turn, ...]
    speakers: tuple[Speaker, ...]
    embeddings: npt.NDArray[np.float32]
    file_id: str = "recording"
    timings: dict[str, float] | None = None

    def document(self) -> dict[str, Any]:
        """The RESULT document: keys in a fixed order, seconds and confidences with 3 decimals."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "duration": seconds(self.num_samples),
            "profile": self.profile,
            "lanes": self.lanes,
            "num_speakers": {
                "requested": self.requested,
                "effective": len(self.speakers),
                "note": self.note,
            },
            "turns": [turn_document(turn) for turn in self.turns],
            "exclusive_turns": [turn_document(turn) for turn in self.exclusive_turns],
            "speakers": [_speaker(speaker) for speaker in self.speakers],
        }
        if self.timings is not None:
            document["timings"] = {stage: round(value, 3) for stage, value in self.timings.items()}
        return document

    def to_json(self) -> bytes:
        """The RESULT document as UTF-8 JSON; the same diarization gives the same bytes."""
        return msgspec.json.encode(self.document())

    def to_rttm(self, *, exclusive: bool = False) -> str:
        """RTTM of all turns, or of the exclusive ones."""
        return to_rttm(self.exclusive_turns if exclusive else self.turns, self.file_id)

    def to_annotation(self) -> Any:
        """The turns as a ``pyannote.core.Annotation``; wants the package pyannote.core."""
        from pyannote.core import Annotation, Segment

        annotation = Annotation(uri=self.file_id)
        for track, turn in enumerate(self.turns):
            annotation[Segment(seconds(turn.start), seconds(turn.end)), track] = turn.speaker
        return annotation

    def to_dataframe(self) -> Any:
        """The turns as a ``pandas.DataFrame``: start, end (seconds), speaker, confidence; wants pandas."""
        import pandas as pd

        columns = ["start", "end", "speaker", "confidence"]
        return pd.DataFrame([turn_document(turn) for turn in self.turns], columns=columns)

    @classmethod
    def from_json(
        cls, text: bytes, embeddings: npt.NDArray[np.float32], file_id: str = "recording"
    ) -> Diarization:
        """Read a RESULT document back; times are those printed, to the millisecond.

        Raises ValueError for another schema.
        """
        document = msgspec.json.decode(text)
        if document.get("schema") != SCHEMA:
            raise ValueError(f"got RESULT schema {document.get('schema')!r}, expected {SCHEMA}")
        counts = document["num_speakers"]
        return cls(
            num_samples=_samples(document["duration"]),
            profile=document["profile"],
            lanes=document["lanes"],
            requested=counts["requested"],
            note=counts["note"],
            turns=read_turns(document["turns"]),
            exclusive_turns=read_turns(document["exclusive_turns"]),
            speakers=tuple(
                Speaker(s["label"], _samples(s["speech"]), s["confidence"], s.get("voice_score"))
                for s in document["speakers"]
            ),
            embeddings=embeddings,
            file_id=file_id,
            timings=document.get("timings"),
        )


def turn_document(turn: Turn) -> dict[str, Any]:
    """One turn as documents have it: seconds and confidence with 3 decimals."""
    return {
        "start": seconds(turn.start),
        "end": seconds(turn.end),
        "speaker": turn.speaker,
        "confidence": round(turn.confidence, 3),
    }


def _speaker(speaker: Speaker) -> dict[str, Any]:
    document = {
        "label": speaker.label,
        "speech": seconds(speaker.speech),
        "confidence": round(speaker.confidence, 3),
    }
    if speaker.voice_score is not None:
        document["voice_score"] = round(speaker.voice_score, 3)
    return document


def read_turns(rows: list[dict[str, Any]]) -> tuple[Turn, ...]:
    """Turns of a RESULT document, as ``turn_document`` writes them."""
    return tuple(Turn(_samples(r["start"]), _samples(r["end"]), r["speaker"], r["confidence"]) for r in rows)


def _samples(time_s: float) -> int:
    return round(time_s * SAMPLE_RATE)
