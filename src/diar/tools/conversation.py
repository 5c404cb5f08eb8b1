"""Simulated conversations: who says what and when, and its reference, before any of it is mixed.

At most two speakers are active at once. Turns last ``turn_s`` on average (gamma distribution of shape 2); the
next speaker either interrupts, as often as the wanted share of overlap needs, or waits for a pause
(exponential distribution). The first turns go to all speakers once, later ones to anybody but the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE
from diar.tools.utterances import bridge, load_utterance
from diar.turns import Turn

MAX_OVERLAP = 0.4
_LEAST_TURN = int(0.6 * SAMPLE_RATE)
_LEAST_PIECE = int(0.3 * SAMPLE_RATE)
_CUT_REACH = int(0.15 * SAMPLE_RATE)  # a cut may move this far to a quieter place
_BETWEEN_PIECES = int(0.2 * SAMPLE_RATE)  # from the end of one utterance to the start of the next
_LEVEL_SPREAD_DB = 3.0


@dataclass(frozen=True)
class Scenario:
    """What a simulated conversation is like.

    turn_s: mean length of a turn. overlap: share of the time with speech in which two speak. pause_s: mean
    pause between turns that do not overlap. noise_db: steady noise this far below the speech; None: none.
    telephone: 300 to 3400 Hz and mu-law, as over a telephone line. rooms: the speakers sit in a room, each at
    a place of their own. Times in seconds.

    Raises SetupError (E_OPTION) for a value out of range.
    """

    num_speakers: int = 4
    length_s: float = 60.0
    turn_s: float = 4.0
    overlap: float = 0.1
    pause_s: float = 0.5
    noise_db: float | None = None
    telephone: bool = False
    rooms: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, ok, expected in [
            ("num_speakers", self.num_speakers >= 1, "at least 1"),
            ("length_s", 0.1 <= self.length_s <= 24 * 3600, "0.1 to 86400"),
            ("turn_s", 0.5 <= self.turn_s <= 300, "0.5 to 300"),
            ("overlap", 0 <= self.overlap <= MAX_OVERLAP, f"0 to {MAX_OVERLAP}"),
            ("pause_s", 0 <= self.pause_s <= 60, "0 to 60"),
            ("seed", self.seed >= 0, "at least 0"),
        ]:
            if not ok:
                raise SetupError("E_OPTION", f"{name}: got {getattr(self, name)}, expected {expected}")

    @property
    def num_samples(self) -> int:
        """Length of the recording in samples."""
        return round(self.length_s * SAMPLE_RATE)


@dataclass(frozen=True)
class Piece:
    """Samples ``[start, end)`` of one utterance, heard from sample ``at`` of the recording on."""

    path: Path
    start: int
    end: int
    at: int

    def speech(self) -> list[tuple[int, int]]:
        """Its stretches of speech, in samples of the recording."""
        inside = [
            (max(start, self.start), min(end, self.end)) for start, end in load_utterance(self.path).speech
        ]
        return [(a - self.start + self.at, b - self.start + self.at) for a, b in inside if a < b]


@dataclass(frozen=True)
class Clip:
    """One speaker's turn in ``[start, end)`` of the recording; gain: factor on its utterances."""

    speaker: str
    gain: float
    pieces: tuple[Piece, ...]
    speech: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Its first sample, which is speech."""
        return self.pieces[0].at

    @property
    def end(self) -> int:
        """The sample behind its last."""
        return self.pieces[-1].at + self.pieces[-1].end - self.pieces[-1].start


class Voice:
    """A speaker's utterances, said in a drawn order, again and again, each time cut differently."""

    def __init__(self, name: str, files: Sequence[Path], rng: np.random.Generator) -> None:
        self.name = name
        self._rng = rng
        self._files = [files[index] for index in rng.permutation(len(files))]
        self._gain = float(10 ** (rng.uniform(-_LEVEL_SPREAD_DB, _LEVEL_SPREAD_DB) / 20))
        self._said = 0  # utterances said so far
        self._position = 0

    def say(self, length: int) -> Clip:
        """The next ``length`` samples or so, as a clip that starts at sample 0."""
        pieces: list[Piece] = []
        at = 0
        while not pieces or length - at >= _LEAST_PIECE:
            path = self._files[self._said % len(self._files)]
            start, end = self._cut(path, length - at)
            if start is None:
                self._begin_next()
                continue
            pieces.append(Piece(path, start, end, at))
            self._position = end
            at += end - start + _BETWEEN_PIECES
        speech = bridge(stretch for piece in pieces for stretch in piece.speech())
        return Clip(self.name, self._gain, tuple(pieces), tuple(speech))

    def _cut(self, path: Path, length: int) -> tuple[int | None, int]:
        """From the next speech on, up to a quiet place ``length`` further or to the end of the speech."""
        utterance = load_utterance(path)
        start = utterance.next_speech(self._position)
        if start is None:
            return None, 0
        last = utterance.speech[-1][1]
        if last - start <= length + _LEAST_PIECE:
            return start, last
        cut = utterance.quiet_point(start + length, _CUT_REACH)
        return start, max(min(b, cut) for a, b in utterance.speech if a < cut)

    def _begin_next(self) -> None:
        self._said += 1
        path = self._files[self._said % len(self._files)]
        first, last = load_utterance(path).speech[0][0], load_utterance(path).speech[-1][1]
        again = self._said >= len(self._files)
        self._position = int(self._rng.integers(first, (first + last) // 2)) if again else 0


def choose_speakers(names: Sequence[str], scenario: Scenario, given: Sequence[str] = ()) -> list[str]:
    """The given speakers, then as many others, drawn, as the scenario needs; SetupError if that cannot be."""
    others = sorted(set(names) - set(given))
    known, wanted = len(others) + len(given), scenario.num_speakers
    if wanted > known:
        raise SetupError("E_SPEAKERS", f"got {known} speakers to draw from, expected at least {wanted}")
    if wanted < len(given):
        raise SetupError("E_OPTION", f"num_speakers: got {wanted}, expected at least the {len(given)} given")
    rng = np.random.default_rng([scenario.seed, 0])
    drawn = rng.choice(others, wanted - len(given), replace=False)
    return [*given, *(str(name) for name in drawn)]


def plan_conversation(speakers: Mapping[str, Sequence[Path]], scenario: Scenario) -> Iterator[Clip]:
    """Yield the clips of a conversation, in order of their starts, until the recording is full."""
    rng = np.random.default_rng([scenario.seed, 1])
    voices = [Voice(name, files, rng) for name, files in speakers.items()]
    floor = front = 0  # at floor all but the last speaker are silent, at front that one is, too
    last: Voice | None = None
    overlapped = spoken = 0
    recent: list[tuple[int, int]] = []  # speech that may still be overlapped
    for turn in range(scenario.num_samples):  # a turn takes more than one sample
        voice = _next_voice(voices, last, turn, rng)
        clip = voice.say(max(_LEAST_TURN, int(rng.gamma(2, scenario.turn_s / 2) * SAMPLE_RATE)))
        lacking = scenario.overlap * (spoken + clip.end) - overlapped
        if voice is not last and lacking > 0 and rng.random() < 0.4 + lacking / clip.end:
            most = min(1.5 * clip.end, 2 * lacking, front - floor)  # over clip.end: some end inside the last
            start = front - int(rng.uniform(0.1, 1) * most)
        else:
            start = front + int(rng.exponential(scenario.pause_s) * SAMPLE_RATE)
        if start >= scenario.num_samples:
            return
        clip = _moved(clip, start)
        yield clip
        shared = sum(max(0, min(b, d) - max(a, c)) for a, b in clip.speech for c, d in recent)
        overlapped += shared
        spoken += sum(b - a for a, b in clip.speech) - shared
        if clip.end >= front:
            floor, front, last = front, clip.end, voice
        else:
            floor = clip.end
        recent = [stretch for stretch in (*recent, *clip.speech) if stretch[1] > floor]


def _next_voice(voices: list[Voice], last: Voice | None, turn: int, rng: np.random.Generator) -> Voice:
    if turn < len(voices):
        return voices[turn]
    others = [voice for voice in voices if voice is not last] or voices
    return others[int(rng.integers(len(others)))]


def _moved(clip: Clip, start: int) -> Clip:
    pieces = tuple(Piece(piece.path, piece.start, piece.end, piece.at + start) for piece in clip.pieces)
    return Clip(clip.speaker, clip.gain, pieces, tuple((a + start, b + start) for a, b in clip.speech))


def reference_turns(clips: Sequence[Clip], num_samples: int) -> tuple[Turn, ...]:
    """Who speaks when in the first ``num_samples`` samples, in order of the starts.

    A clip's pauses up to 0.3 s are part of its turn.
    """
    by_speaker: dict[str, list[tuple[int, int]]] = {}
    for clip in clips:
        by_speaker.setdefault(clip.speaker, []).extend(clip.speech)
    return tuple(
        sorted(
            Turn(start, min(end, num_samples), speaker)
            for speaker, stretches in by_speaker.items()
            for start, end in bridge(sorted(stretches), longest=0)
            if start < num_samples
        )
    )
