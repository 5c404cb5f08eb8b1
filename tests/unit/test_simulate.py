"""Simulated conversations: the reference must be true, the files repeatable, the shares as asked for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from diar.errors import SetupError
from diar.tools import simulate as simulate_command
from diar.tools.channels import noise, room, telephone
from diar.tools.conversation import Scenario
from diar.tools.simulate import CHUNK_SAMPLES, main, simulate
from diar.tools.utterances import load_utterance, read_audio

RATE = 16_000
SINGLE = Path(__file__).parents[3] / "shared" / "data" / "single"
STRETCHES_S = [(0.5, 2.0), (2.2, 3.0), (3.5, 6.0)]  # a pause of 0.2 s, one of 0.5 s


def voice(pitch_hz: float, stretches_s: list[tuple[float, float]], length_s: float = 6.5) -> np.ndarray:
    """Harmonics of a pitch while it speaks, faint noise else."""
    time = np.arange(int(length_s * RATE)) / RATE
    tone = sum(np.sin(2 * np.pi * pitch_hz * k * time) / k for k in range(1, 8)) * 0.1
    active = np.zeros(len(time))
    for start, end in stretches_s:
        active[int(start * RATE) : int(end * RATE)] = 1
    return (tone * active + np.random.default_rng(0).normal(0, 1e-4, len(time))).astype(np.float32)


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five speakers of two utterances each, one of them at 8 kHz, one in stereo."""
    folder = tmp_path_factory.mktemp("speakers")
    for index in range(5):
        sub = folder / f"voice_{index}"
        sub.mkdir()
        samples = voice(100 + 40 * index, STRETCHES_S)
        soundfile.write(sub / "a.flac", samples, RATE)
        stereo = np.stack([samples, samples], axis=1)[: 6 * RATE]
        soundfile.write(sub / "b.wav", stereo if index else samples[::2], RATE if index else RATE // 2)
    return folder


def test_speech_is_found_where_it_is_and_short_pauses_belong_to_it(speakers):
    speech = load_utterance(speakers / "voice_1" / "a.flac").speech
    assert np.allclose(np.array(speech) / RATE, [(0.5, 3.0), (3.5, 6.0)], atol=0.02)


@pytest.mark.parametrize(
    "samples", [np.zeros(RATE, np.float32), np.zeros(10, np.float32)], ids=["silent", "tiny"]
)
def test_an_utterance_without_speech_is_named(tmp_path, samples):
    soundfile.write(tmp_path / "quiet.wav", samples, RATE)
    with pytest.raises(SetupError, match=r"no speech in .*quiet\.wav"):
        load_utterance(tmp_path / "quiet.wav")


def test_other_rates_and_channels_become_16_khz_mono(speakers):
    for file in ("voice_0/b.wav", "voice_1/b.wav"):
        assert abs(len(read_audio(speakers / file)) / RATE - 6.0) < 0.6
        assert read_audio(speakers / file).ndim == 1


def test_where_the_reference_is_silent_the_recording_is_silent_and_the_other_way_round(speakers):
    conversation = simulate(speakers, Scenario(length_s=120, overlap=0.2))
    active = np.zeros(120 * RATE, bool)
    for turn in conversation.turns:
        active[turn.start : turn.end] = True
    power = np.square(conversation.samples() / 32768.0).reshape(-1, 160).mean(axis=1)
    active = active.reshape(-1, 160)
    loud = power > 1e-4
    assert loud[~active.any(axis=1)].mean() < 0.01
    assert loud[active.all(axis=1)].mean() > 0.9  # the rest are pauses of up to 0.3 s


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(Scenario(length_s=300), id="defaults"),
        pytest.param(Scenario(length_s=300, overlap=0.0), id="no-overlap"),
        pytest.param(Scenario(length_s=300, overlap=0.4, num_speakers=5, seed=3), id="most-overlap"),
        pytest.param(Scenario(length_s=300, num_speakers=2, turn_s=1.5, seed=7), id="two-speakers"),
        pytest.param(Scenario(length_s=300, num_speakers=1), id="one-speaker"),
    ],
)
def test_the_reference_is_as_the_scenario_asks(speakers, scenario):
    turns = simulate(speakers, scenario).turns
    assert turns == tuple(sorted(turns))
    assert turns[-1].end <= 300 * RATE
    assert len({turn.speaker for turn in turns}) == scenario.num_speakers
    active = np.zeros((len(speakers_of(turns)), 300 * RATE), np.int8)
    for turn in turns:
        active[speakers_of(turns).index(turn.speaker), turn.start : turn.end] += 1
    assert active.max() == 1, "a speaker overlaps himself"
    count = active.sum(axis=0)
    assert count.max() <= 2
    wanted = scenario.overlap if scenario.num_speakers > 1 else 0.0
    assert (count == 2).sum() / (count > 0).sum() == pytest.approx(wanted, abs=0.04)


def speakers_of(turns):
    return sorted({turn.speaker for turn in turns})


def test_pauses_and_turns_have_the_lengths_asked_for(speakers):
    clips = simulate(speakers, Scenario(length_s=3000, overlap=0, pause_s=2, turn_s=5)).clips
    pauses = [(b.start - a.end) / RATE for a, b in itertools.pairwise(clips)]
    assert np.mean(pauses) == pytest.approx(2, rel=0.25)
    assert np.mean([clip.end - clip.start for clip in clips]) / RATE == pytest.approx(5, rel=0.25)


def test_utterances_are_cut_differently_each_time_round(speakers):
    clips = simulate(speakers, Scenario(length_s=300, num_speakers=2)).clips
    cuts = [(piece.path, piece.start, piece.end) for clip in clips for piece in clip.pieces]
    assert len(set(cuts)) > 0.8 * len(cuts)


def test_the_same_arguments_give_the_same_bytes(speakers, tmp_path, capsys):
    arguments = [str(speakers), "--length-s", "25", "--noise-db", "20", "--telephone", "--count", "2"]
    for out in ("one", "two"):
        assert main([*arguments, "--out", str(tmp_path / out)]) == 0
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["sim_4spk_s0.flac", "sim_4spk_s0.rttm", "sim_4spk_s1.flac", "sim_4spk_s1.rttm"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one" / names[0]).read_bytes() != (tmp_path / "one" / names[2]).read_bytes()
    assert "25 s, 4 speakers" in capsys.readouterr().out


def test_the_file_holds_the_samples_of_the_api(speakers, tmp_path):
    assert (
        main(
            [str(speakers), "--out", str(tmp_path), "--length-s", "12.3", "--name", "x y", "--format", "wav"]
        )
        == 0
    )
    samples, rate = soundfile.read(tmp_path / "x_y.wav", dtype="int16")
    assert rate == RATE
    assert len(samples) == int(12.3 * RATE)
    assert np.array_equal(samples, simulate(speakers, Scenario(length_s=12.3)).samples())


def test_noise_and_telephone_leave_the_plan_alone(speakers):
    plain = simulate(speakers, Scenario(length_s=30))
    both = simulate(speakers, Scenario(length_s=30, noise_db=10, telephone=True))
    assert plain.turns == both.turns
    assert not np.array_equal(plain.samples(), both.samples())


def test_rooms_leave_the_plan_and_the_direct_sound_alone(speakers):
    scenario = Scenario(length_s=60, overlap=0.0)
    plain, reverberant = simulate(speakers, scenario), simulate(speakers, replace(scenario, rooms=True))
    assert plain.turns == reverberant.turns
    dry, wet = plain.samples().astype(float), reverberant.samples().astype(float)
    tail = wet - dry
    onset = plain.turns[0].start
    assert not np.abs(tail[: onset + 30]).max() > 2  # the first reflection comes after at least 2 ms
    level_db = 10 * np.log10(np.square(tail).sum() / np.square(dry).sum())
    assert -11 < level_db < 1
    # reverberation is heard behind a turn, and is gone before the next
    gaps = [(a.end, b.start) for a, b in itertools.pairwise(plain.turns) if b.start - a.end > RATE]
    assert gaps
    for start, end in gaps:
        behind, later = (
            np.square(wet[part]).mean() for part in (slice(start, start + 1600), slice(end - 1600, end))
        )
        assert behind > 10 * later


def test_a_room_has_one_decay_and_places_of_their_own():
    one, two, three = itertools.islice(room(np.random.default_rng(4)), 3)
    assert one[0] == two[0] == three[0] == 1
    assert len(one) == len(two)
    assert 0.25 * RATE <= len(one) <= 0.7 * RATE
    assert not np.array_equal(one, two)
    for response in (one, two, three):
        energy = np.square(response[1:]).sum()
        assert -10.1 <= 10 * np.log10(energy) <= 0.1
        halves = [np.square(part).sum() for part in np.split(response[160 : 160 + len(response) // 4 * 2], 2)]
        assert 10 * np.log10(halves[0] / halves[1]) == pytest.approx(15, abs=2)  # a quarter of 60 dB later


def test_a_room_that_is_cut_into_chunks_loses_no_reverberation(speakers):
    conversation = simulate(speakers, Scenario(length_s=45, rooms=True))
    whole = conversation.samples()
    assert len(whole) == 45 * RATE
    seams = np.arange(CHUNK_SAMPLES, len(whole), CHUNK_SAMPLES)
    steps = np.abs(np.diff(whole.astype(int)))
    assert steps[seams - 1].max() <= np.percentile(steps, 99.99)


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.setattr(simulate_command, "_alike", lambda options: ("voice_3", "voice_1"))


@pytest.mark.parametrize(
    ("arguments", "name", "count"),
    [
        pytest.param([], "sim_2spk_s0", 2, id="the-pair-alone"),
        pytest.param(["--num-speakers", "4"], "sim_4spk_s0", 4, id="and-two-drawn-ones"),
    ],
)
def test_alike_voices_are_among_the_speakers(speakers, pair, tmp_path, arguments, name, count):
    command = [str(speakers), "--alike", "1", "--length-s", "60", "--out", str(tmp_path), *arguments]
    assert main(command) == 0
    heard = {line.split()[7] for line in (tmp_path / f"{name}.rttm").read_text().splitlines()}
    assert heard >= {"voice_1", "voice_3"}
    assert len(heard) == count


def test_a_pair_is_no_less_than_two_speakers(speakers, pair, tmp_path, capsys):
    command = [str(speakers), "--alike", "1", "--num-speakers", "1", "--out", str(tmp_path)]
    assert main(command) == 1
    assert "num_speakers: got 1, expected at least the 2 given" in capsys.readouterr().err


def test_noise_has_the_level_asked_for():
    quiet = noise(20.0, np.random.default_rng(0))(np.zeros(10 * RATE, np.float32))
    assert 10 * np.log10(np.square(quiet).mean()) == pytest.approx(-46, abs=0.5)  # speech is at -26 dB


def test_the_telephone_passes_its_band_only():
    time = np.arange(RATE) / RATE
    for frequency, least, most in [(100, 0, 0.1), (1000, 0.95, 1.05), (6000, 0, 0.1)]:
        tone = np.sin(2 * np.pi * frequency * time).astype(np.float32) / 2
        gain = np.sqrt(np.square(telephone()(tone)).mean() / np.square(tone).mean())
        assert least <= gain <= most


def test_channels_go_on_where_the_last_chunk_ended():
    tone = np.sin(np.arange(RATE) / 5).astype(np.float32) / 2
    for make in (telephone, lambda: noise(10, np.random.default_rng(1))):
        channel = make()
        pieces = np.concatenate([channel(tone[:5000]), channel(tone[5000:])])
        assert np.allclose(pieces, make()(tone), atol=1e-6)


def test_the_recording_is_mixed_a_chunk_at_a_time(speakers):
    chunks = simulate(speakers, Scenario(length_s=36_000)).chunks()
    assert [len(chunk) for chunk in itertools.islice(chunks, 3)] == [CHUNK_SAMPLES] * 3


def test_given_speakers_are_the_ones_heard(speakers):
    turns = simulate(speakers, Scenario(length_s=60), ["voice_4", "voice_2"]).turns
    assert speakers_of(turns) == ["voice_2", "voice_4"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"num_speakers": 0}, "num_speakers: got 0", id="no-speakers"),
        pytest.param({"num_speakers": 6}, "got 5 speakers to draw from, expected at least 6", id="too-few"),
        pytest.param({"overlap": 0.5}, r"overlap: got 0\.5, expected 0 to 0\.4", id="overlap"),
        pytest.param({"length_s": 0}, "length_s: got 0", id="length"),
        pytest.param({"turn_s": 0.1}, "turn_s: got 0.1", id="turn"),
        pytest.param({"pause_s": -1}, "pause_s: got -1", id="pause"),
    ],
)
def test_what_cannot_be_simulated_is_named(speakers, change, message):
    with pytest.raises(SetupError, match=message):
        simulate(speakers, replace(Scenario(), **change))


def test_a_folder_without_speakers_is_one_line_and_exit_1(tmp_path, capsys):
    assert main([str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "expected one sub-folder" in capsys.readouterr().err


@pytest.mark.skipif(not SINGLE.is_dir(), reason="no ../shared/data/single")
def test_real_voices_make_a_full_conversation():
    conversation = simulate(SINGLE, Scenario(num_speakers=8, length_s=300))
    assert len(speakers_of(conversation.turns)) == 8
    assert sum(turn.end - turn.start for turn in conversation.turns) > 0.7 * 300 * RATE
    assert np.abs(conversation.samples()).mean() > 100
