"""A recording that is through."""

from __future__ import annotations

from dataclasses import dataclass

from diar.result import Diarization
from diar_client.inputs import Recording
from diar_client.report.sound import Sound


@dataclass(frozen=True)
class Finished:
    """A recording and what came of it.

    position: among all recordings of the run. sound: kept for reports only.
    """

    position: int
    recording: Recording
    result: Diarization
    sound: Sound | None = None
