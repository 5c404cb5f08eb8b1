"""Who speaks how much, counted from turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diar.result import Diarization
from diar.turns import Turn

Stretch = tuple[int, int]  # [start, end) in samples


@dataclass(frozen=True)
class SpeakerStatistics:
    """Of one speaker, times in samples.

    share: of the speech of all, 0 to 1. confidence: mean over the speech.
    """

    label: str
    speech: int
    share: float
    turns: int
    longest: int
    confidence: float

    @property
    def mean(self) -> float:
        """Mean length of a turn, in samples."""
        return self.speech / self.turns if self.turns else 0.0


@dataclass(frozen=True)
class Statistics:
    """Of a recording, times in samples. speech: somebody speaks; overlaps: stretches where two or more do."""

    num_samples: int
    speech: int
    overlaps: tuple[Stretch, ...]
    turns: int
    speakers: tuple[SpeakerStatistics, ...]

    @property
    def overlap(self) -> int:
        """Samples in which two or more speak."""
        return sum(end - start for start, end in self.overlaps)


def speaker_labels(result: Diarization) -> list[str]:
    """The speakers in their order, then any who have turns only."""
    labels = [speaker.label for speaker in result.speakers]
    turns = [*result.turns, *result.exclusive_turns]
    return list(dict.fromkeys([*labels, *(turn.speaker for turn in turns)]))


def count(turns: Sequence[Turn], labels: Iterable[str], num_samples: int) -> Statistics:
    """The statistics of ``turns``; those of the speakers in the order of ``labels``.

    >>> both = count([Turn(0, 60, "A"), Turn(40, 80, "B", 0.5)], ["A", "B"], 100)
    >>> both.speech, both.overlaps, [speaker.share for speaker in both.speakers]
    (80, ((40, 60),), [0.6, 0.4])
    """
    total = sum(turn.end - turn.start for turn in turns)
    speakers = tuple(
        _speaker(label, [turn for turn in turns if turn.speaker == label], total) for label in labels
    )
    levels = _levels(turns)
    speech = sum(end - start for start, end in _at_least(levels, 1))
    return Statistics(num_samples, speech, tuple(_at_least(levels, 2)), len(turns), speakers)


def _speaker(label: str, turns: Sequence[Turn], total: int) -> SpeakerStatistics:
    lengths = [turn.end - turn.start for turn in turns]
    speech = sum(lengths)
    sure = sum(length * turn.confidence for length, turn in zip(lengths, turns, strict=True))
    return SpeakerStatistics(
        label=label,
        speech=speech,
        share=speech / total if total else 0.0,
        turns=len(turns),
        longest=max(lengths, default=0),
        confidence=sure / speech if speech else 0.0,
    )


def _levels(turns: Iterable[Turn]) -> list[tuple[int, int]]:
    """(sample, number of turns active from there on), ascending."""
    changes: dict[int, int] = {}
    for turn in turns:
        changes[turn.start] = changes.get(turn.start, 0) + 1
        changes[turn.end] = changes.get(turn.end, 0) - 1
    levels, active = [], 0
    for sample in sorted(changes):
        active += changes[sample]
        levels.append((sample, active))
    return levels


def _at_least(levels: Sequence[tuple[int, int]], least: int) -> list[Stretch]:
    stretches: list[Stretch] = []
    begin: int | None = None
    for sample, active in levels:
        if active >= least and begin is None:
            begin = sample
        elif active < least and begin is not None:
            stretches.append((begin, sample))
            begin = None
    return stretches
