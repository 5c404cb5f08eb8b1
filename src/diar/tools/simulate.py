"""Simulate conversations from single-speaker utterances, with an exact reference.

SPEAKERS_DIR holds one sub-folder of flac or wav files a speaker. Each conversation is written as <id>.flac
(or wav), 16 kHz mono, and <id>.rttm. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
from scipy import signal

from diar.artifacts import replacing
from diar.errors import DiarError, SetupError
from diar.options import clean_file_id
from diar.profile import SAMPLE_RATE
from diar.tools.channels import Channel, noise, room, telephone
from diar.tools.conversation import Clip, Scenario, choose_speakers, plan_conversation, reference_turns
from diar.tools.utterances import Floats, list_speakers, load_utterance
from diar.turns import Turn, to_rttm

CHUNK_SAMPLES = 10 * SAMPLE_RATE
_FADE_SAMPLES = SAMPLE_RATE // 200  # 5 ms at each cut, against clicks

Pcm = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Conversation:
    """A planned conversation; its samples are mixed as they are asked for."""

    scenario: Scenario
    clips: tuple[Clip, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The reference, in order of the starts; labels are the speakers' folder names."""
        return reference_turns(self.clips, self.scenario.num_samples)

    def chunks(self) -> Iterator[Pcm]:
        """Yield the recording, (samples,) int16 at 16 kHz, 10 s at a time."""
        channels = _channels(self.scenario)
        for chunk in _mix(self.clips, self.scenario.num_samples, self._places()):
            for channel in channels:
                chunk = channel(chunk)
            yield np.clip(np.rint(chunk * 32768), -32768, 32767).astype(np.int16)

    def samples(self) -> Pcm:
        """The whole recording, (samples,) int16 at 16 kHz."""
        return np.concatenate(list(self.chunks()))

    def _places(self) -> Mapping[str, Floats]:
        """What the room makes of each speaker; empty without rooms."""
        if not self.scenario.rooms:
            return {}
        places = room(np.random.default_rng([self.scenario.seed, 3]))
        return dict(zip(sorted({clip.speaker for clip in self.clips}), places, strict=False))


def simulate(
    speakers_dir: Path, scenario: Scenario | None = None, speakers: Sequence[str] | None = None
) -> Conversation:
    """Plan a conversation of ``speakers`` (names of sub-folders), by default of drawn ones.

    Raises SetupError: no such folder or speaker, too few of them, an utterance that cannot be read.
    """
    scenario = scenario or Scenario()
    known = list_speakers(speakers_dir)
    if speakers is None:
        speakers = choose_speakers(list(known), scenario)
    else:
        scenario = replace(scenario, num_speakers=len(speakers))
    if unknown := sorted(set(speakers) - known.keys()):
        raise SetupError("E_SPEAKERS", f"no speaker {', '.join(unknown)} in {speakers_dir}")
    chosen: Mapping[str, Sequence[Path]] = {name: known[name] for name in speakers}
    return Conversation(scenario, tuple(plan_conversation(chosen, scenario)))


def write_conversation(conversation: Conversation, audio: Path) -> None:
    """Stream to ``audio`` (its suffix says flac or wav), the reference beside it, each file as a whole."""
    with replacing(audio.with_suffix(".rttm")) as draft:
        draft.write_text(to_rttm(conversation.turns, audio.stem), encoding="utf-8")
    format_ = audio.suffix.lstrip(".").upper()
    with (
        replacing(audio) as draft,
        soundfile.SoundFile(draft, "w", SAMPLE_RATE, channels=1, subtype="PCM_16", format=format_) as file,
    ):
        for chunk in conversation.chunks():
            file.write(chunk)


def _channels(scenario: Scenario) -> list[Channel]:
    channels = []
    if scenario.noise_db is not None:
        channels.append(noise(scenario.noise_db, np.random.default_rng([scenario.seed, 2])))
    if scenario.telephone:
        channels.append(telephone())
    return channels


def _mix(clips: Sequence[Clip], num_samples: int, places: Mapping[str, Floats]) -> Iterator[Floats]:
    """Add the clips up, each as it sounds from its speaker's place; holds the sounding ones only."""
    waiting = iter(clips)
    upcoming = next(waiting, None)
    sounding: list[tuple[int, Floats]] = []
    for start in range(0, num_samples, CHUNK_SAMPLES):
        mixed = np.zeros(min(CHUNK_SAMPLES, num_samples - start), np.float32)
        end = start + len(mixed)
        while upcoming is not None and upcoming.start < end:
            sounding.append((upcoming.start, _heard_from(upcoming, places)))
            upcoming = next(waiting, None)
        for at, voice in sounding:
            first, last = max(at, start), min(at + len(voice), end)
            mixed[first - start : last - start] += voice[first - at : last - at]
        sounding = [(at, voice) for at, voice in sounding if at + len(voice) > end]
        yield mixed


def _heard_from(clip: Clip, places: Mapping[str, Floats]) -> Floats:
    """The clip's samples, and in a room their reverberation, which goes on behind its end."""
    voice = _voice_of(clip)
    if clip.speaker not in places:
        return voice
    reverberant: Floats = signal.fftconvolve(voice, places[clip.speaker]).astype(np.float32)
    return reverberant


def _voice_of(clip: Clip) -> Floats:
    """The clip's own samples, faded at its cuts."""
    voice = np.zeros(clip.end - clip.start, np.float32)
    ramp = np.linspace(0, 1, _FADE_SAMPLES, dtype=np.float32)
    for piece in clip.pieces:
        part = clip.gain * load_utterance(piece.path).samples[piece.start : piece.end]
        part[: len(ramp)] *= ramp[: len(part)]
        part[-len(ramp) :] *= ramp[::-1][-len(part) :]
        at = piece.at - clip.start
        voice[at : at + len(part)] = part
    return voice


def _describe(conversation: Conversation) -> str:
    """Length, turns, speakers and shares of a conversation, in one line."""
    turns, length = conversation.turns, conversation.scenario.num_samples
    edges = sorted([(turn.start, 1) for turn in turns] + [(turn.end, -1) for turn in turns])
    time = [0, 0, 0]  # samples with nobody, one speaker, two speakers
    active = previous = 0
    for position, change in [*edges, (length, 0)]:
        time[active] += position - previous
        active, previous = active + change, position
    speech = time[1] + time[2]
    return (
        f"{length / SAMPLE_RATE:.0f} s, {len({turn.speaker for turn in turns})} speakers, "
        f"{len(turns)} turns, "
        f"speech {speech / length:.0%}, overlap {time[2] / max(1, speech):.1%} of it"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    defaults = Scenario()
    parser.add_argument("speakers_dir", type=Path, metavar="SPEAKERS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="made if missing")
    parser.add_argument("--name", help="id of the recording; default: made from speakers and seed")
    parser.add_argument("--num-speakers", type=int, metavar="N", help="default: 4, with --alike 2")
    voices = parser.add_mutually_exclusive_group()
    voices.add_argument("--speakers", metavar="A,B,...", help="these speakers instead of N drawn ones")
    voices.add_argument(
        "--alike",
        type=int,
        metavar="RANK",
        help="the RANK-th most alike pair (1: most), and N - 2 drawn ones",
    )
    parser.add_argument("--length-s", type=float, default=defaults.length_s, metavar="S")
    parser.add_argument("--turn-s", type=float, default=defaults.turn_s, metavar="S", help="mean turn")
    parser.add_argument(
        "--overlap", type=float, default=defaults.overlap, metavar="SHARE", help="of the time with speech"
    )
    parser.add_argument("--pause-s", type=float, default=defaults.pause_s, metavar="S", help="mean pause")
    parser.add_argument("--noise-db", type=float, metavar="DB", help="add noise this far below the speech")
    parser.add_argument("--telephone", action="store_true", help="300 to 3400 Hz, mu-law")
    parser.add_argument("--rooms", action="store_true", help="a room, and a place in it for each speaker")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--count", type=int, default=1, metavar="K", help="recordings, of seeds SEED, SEED+1 ..."
    )
    parser.add_argument("--format", choices=("flac", "wav"), default="flac")
    alike = parser.add_argument_group("what --alike judges voices by")
    alike.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    alike.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    return parser


def _alike(options: argparse.Namespace) -> tuple[str, ...]:
    """The pair of the rank asked for, by the profile's own networks."""
    from diar.block import BlockRunner  # torch, which nothing else here needs
    from diar.profile import load_profile
    from diar.tools.voices import alike_pairs, pair_of_rank

    runner = BlockRunner(load_profile(options.profile), options.engines_dir.resolve() / "build")
    pair = pair_of_rank(alike_pairs(list_speakers(options.speakers_dir), runner), options.alike)
    print(f"alike: {pair.one} and {pair.two}, cosine {pair.cosine:.2f}", flush=True)
    return pair.one, pair.two


def _write_all(options: argparse.Namespace) -> None:
    """Write the recordings of all seeds, and say what each is like."""
    given = tuple(options.speakers.split(",")) if options.speakers else ()
    if options.alike is not None:
        given = _alike(options)
    num_speakers = options.num_speakers
    if num_speakers is None or options.speakers:
        num_speakers = len(given) or Scenario().num_speakers
    for seed in range(options.seed, options.seed + options.count):
        scenario = Scenario(
            num_speakers=num_speakers,
            length_s=options.length_s,
            turn_s=options.turn_s,
            overlap=options.overlap,
            pause_s=options.pause_s,
            noise_db=options.noise_db,
            telephone=options.telephone,
            rooms=options.rooms,
            seed=seed,
        )
        stem = clean_file_id(options.name or f"sim_{scenario.num_speakers}spk")
        if options.count > 1 or not options.name:
            stem += f"_s{seed}"
        speakers = choose_speakers(list(list_speakers(options.speakers_dir)), scenario, given)
        conversation = simulate(options.speakers_dir, scenario, speakers)
        audio = options.out / f"{stem}.{options.format}"
        write_conversation(conversation, audio)
        print(f"{audio}: {_describe(conversation)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        _write_all(options)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"error: cannot write to {options.out}: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
