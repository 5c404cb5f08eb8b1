"""Known voices: kept in files, and found again among the speakers of a recording.

The thresholds come from measurements: docs/decisions/2026-11-29-known-voices.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from diar.artifacts import replacing
from diar.errors import InvalidOption, SetupError
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.result import Diarization, Speaker
from diar.turns import Turn
from diar_client.inputs import safe_name

SCHEMA = 1
SUFFIX = ".voice.json"
CLOSE = 0.55  # least cosine of a speaker's centroid to a voice that names it
CLEARLY = 0.1  # and by this much less to any other voice; of two speakers the closer one by this much
MAX_NAME_CHARACTERS = 100


class Voice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a person's voice.

    profile, weights: whose networks made the embedding; weights is the sha256 of the embedding network's.
    seconds: of speech behind it. embedding: (dim,) of length 1.
    """

    schema: int
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    profile: str
    weights: str
    seconds: float
    embedding: list[float]


def make_voice(name: str, results: Sequence[Diarization]) -> Voice:
    """The voice of the speaker who speaks most in each of ``results``, at least one, of one profile.

    Raises InvalidOption for a name that is none.
    """
    check_name(name)
    total = np.zeros(results[0].embeddings.shape[1])
    seconds = 0.0
    for result in results:
        speech_s = [speaker.speech / SAMPLE_RATE for speaker in result.speakers]
        most = int(np.argmax(speech_s))
        total += speech_s[most] * result.embeddings[most]
        seconds += speech_s[most]
    profile = load_profile(results[0].profile)
    embedding = total / np.linalg.norm(total)
    return Voice(
        SCHEMA, name, profile.name, profile.embedding.weights.sha256, round(seconds, 3), embedding.tolist()
    )


def check_name(name: str) -> None:
    """Raise InvalidOption for a name that cannot stand in every format."""
    if not (name.isprintable() and name.strip() == name and 0 < len(name) <= MAX_NAME_CHARACTERS):
        raise InvalidOption(
            "E_OPTION_NAME",
            f"got the name {name!r}, expected 1 to {MAX_NAME_CHARACTERS} printable characters, trimmed",
        )


def save_voice(voice: Voice, folder: str) -> Path:
    """Write a voice file into ``folder``, made if it is not there; an older one of that name is replaced."""
    path = Path(folder) / f"{safe_name(voice.name)}{SUFFIX}"
    try:
        with replacing(path) as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(voice), indent=1))
    except OSError as err:
        raise SetupError("E_SETUP_VOICE", f"cannot write {path}: {err.strerror or err}") from None
    return path


def load_voices(folder: str) -> list[Voice]:
    """The voices that are kept in ``folder``, by name.

    Raises SetupError if there is no such folder, no voice in it, a file that is none, a name twice.
    """
    voices: dict[str, Voice] = {}
    paths = sorted(Path(folder).glob(f"*{SUFFIX}"))
    if not paths:
        raise SetupError(
            "E_SETUP_VOICE", f"{folder}: no voices ({SUFFIX}) are kept there; see diarize enroll"
        )
    for path in paths:
        voice = _read(path)
        if voice.name in voices:
            raise SetupError("E_SETUP_VOICE", f"{path}: another file has the voice of {voice.name}, too")
        voices[voice.name] = voice
    return sorted(voices.values(), key=lambda voice: voice.name)


def check_voices(voices: Sequence[Voice], profile: Profile) -> None:
    """Raise InvalidOption for a voice that networks other than those of ``profile`` have heard."""
    weights = profile.embedding.weights.sha256
    for voice in voices:
        if (voice.profile, voice.weights) != (profile.name, weights):
            raise InvalidOption(
                "E_OPTION_VOICE",
                f"the voice of {voice.name} is of profile {voice.profile} (weights {voice.weights[:8]}), the"
                f" server has {profile.name} ({weights[:8]}): enroll it again",
            )


def name_speakers(result: Diarization, voices: Sequence[Voice]) -> Diarization:
    """Give the speakers whose voices are known their names, in turns and speakers; others keep their label.

    Raises InvalidOption for voices of another profile.
    """
    if not voices or not result.speakers:
        return result
    check_voices(voices, load_profile(result.profile))
    known = np.array([voice.embedding for voice in voices])
    named = match(result.embeddings.astype(np.float64) @ known.T)
    names = {
        result.speakers[row].label: (voices[column].name, score) for row, (column, score) in named.items()
    }
    return replace(
        result,
        turns=_rename(result.turns, names),
        exclusive_turns=_rename(result.exclusive_turns, names),
        speakers=tuple(_rename_speaker(speaker, names) for speaker in result.speakers),
    )


def match(cosine: npt.NDArray[np.float64]) -> dict[int, tuple[int, float]]:
    """Which voice each speaker has: speaker -> (voice, cosine), for those who have one beyond doubt.

    cosine: (speaker, voice). A voice goes to one speaker at most.

    >>> match(np.array([[0.8, 0.1], [0.2, 0.65], [0.5, 0.3]]))
    {0: (0, 0.8), 1: (1, 0.65)}
    >>> match(np.array([[0.7, 0.65], [0.1, 0.2]])), match(np.array([[0.8], [0.75]]))
    ({}, {})
    """
    found = {}
    for speaker, voice in np.argwhere(cosine >= CLOSE):
        score = cosine[speaker, voice]
        others = np.concatenate([np.delete(cosine[speaker], voice), np.delete(cosine[:, voice], speaker)])
        if (others <= score - CLEARLY).all():
            found[int(speaker)] = int(voice), float(score)
    return found


def _read(path: Path) -> Voice:
    try:
        voice = msgspec.json.decode(path.read_bytes(), type=Voice)
        check_name(voice.name)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, InvalidOption) as err:
        raise SetupError("E_SETUP_VOICE", f"{path}: no voice file: {err}") from None
    length = float(np.linalg.norm(voice.embedding))
    if voice.schema != SCHEMA or not abs(length - 1) < 1e-3:
        raise SetupError(
            "E_SETUP_VOICE",
            f"{path}: got schema {voice.schema}, an embedding {length:.3g} long, expected {SCHEMA} and 1",
        )
    return voice


def _rename(turns: Sequence[Turn], names: dict[str, tuple[str, float]]) -> tuple[Turn, ...]:
    return tuple(
        replace(turn, speaker=names[turn.speaker][0]) if turn.speaker in names else turn for turn in turns
    )


def _rename_speaker(speaker: Speaker, names: dict[str, tuple[str, float]]) -> Speaker:
    if speaker.label not in names:
        return speaker
    name, score = names[speaker.label]
    return replace(speaker, label=name, voice_score=score)
