"""A picture of a result for papers and CI: waveform and lanes, drawn by matplotlib (extra ``report``)."""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from diar.errors import SetupError
from diar.profile import SAMPLE_RATE
from diar.result import Diarization
from diar.tools.timeline import clock
from diar.turns import Turn
from diar_client.formats import chosen_turns
from diar_client.report.palette import colour, opacity
from diar_client.report.sound import Sound
from diar_client.report.statistics import Statistics, count, speaker_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN = 10.0
DPI = 150
_LANE_IN, _LANES_IN = 0.28, 12.0  # height of a lane, and of all of them at most
_WAVE_IN, _AXIS_IN, _TITLE_IN, _LABELS_IN, _EDGE_IN = 0.75, 0.35, 0.4, 1.35, 0.3
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
_MOST_TICKS = 12
_LONG_S = 900.0  # from here on turns are narrower than pixels, and drawn as solid as the share they fill
_MOST_LETTERS = 15
_INK, _SOFT, _TRACK = "#1b1f26", "#596273", "#f1f3f6"


def check_matplotlib() -> None:
    """Raise SetupError if it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SetupError(
            "E_SETUP_EXTRA",
            "a PNG needs matplotlib: pip install 'diar-triton[report]' (or -f html, which does not)",
        )


def picture(
    result: Diarization,
    sound: Sound | None,
    *,
    exclusive: bool = False,
    width_in: float = WIDTH_IN,
    dpi: int = DPI,
) -> bytes:
    """The PNG file. sound: its peaks are drawn; None leaves the waveform out.

    Raises SetupError if matplotlib is not installed, InvalidAudio if the sound is not as long as the result.
    """
    check_matplotlib()
    if sound is not None:
        sound.check_length(result.num_samples)
    from matplotlib.figure import Figure

    labels, turns = speaker_labels(result), chosen_turns(result, exclusive)
    statistics = count(turns, labels, result.num_samples)
    lanes_in = min(max(len(labels), 1) * _LANE_IN, _LANES_IN)
    wave_in = _WAVE_IN if sound else 0.0
    height_in = _TITLE_IN + wave_in + lanes_in + _AXIS_IN
    figure = Figure(figsize=(width_in, height_in), dpi=dpi, facecolor="white")
    left, width = _LABELS_IN / width_in, 1 - (_LABELS_IN + _EDGE_IN) / width_in
    lanes = figure.add_axes((left, _AXIS_IN / height_in, width, lanes_in / height_in))
    _draw_lanes(lanes, turns, labels, statistics)
    _draw_time(lanes, result.num_samples / SAMPLE_RATE)
    if sound:
        wave = figure.add_axes((left, (_AXIS_IN + lanes_in) / height_in, width, wave_in / height_in))
        _draw_wave(wave, sound.peaks, columns=round(width_in * width * dpi / 2))
    title = _line(f"{result.file_id} · {clock(result.num_samples / SAMPLE_RATE)}", 100)
    top = 1 - _TITLE_IN / 2 / height_in
    figure.text(left, top, title, va="center", fontsize=10, color=_INK, weight="bold", parse_math=False)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # boxes are drawn
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _draw_lanes(axes: Axes, turns: Sequence[Turn], labels: Sequence[str], statistics: Statistics) -> None:
    from matplotlib.colors import to_rgba

    snap = False if statistics.num_samples > _LONG_S * SAMPLE_RATE else None
    both = [(start / SAMPLE_RATE, (end - start) / SAMPLE_RATE) for start, end in statistics.overlaps]
    if both:
        axes.broken_barh(both, (-0.5, len(labels)), facecolors=to_rgba(_SOFT, 0.12), linewidth=0, snap=snap)
    for lane, label in enumerate(labels):
        axes.axhline(lane, color=_TRACK, zorder=0)
        own = [turn for turn in turns if turn.speaker == label]
        spans = [(turn.start / SAMPLE_RATE, (turn.end - turn.start) / SAMPLE_RATE) for turn in own]
        colours = [to_rgba(colour(lane), opacity(turn.confidence)) for turn in own]
        if own:
            axes.broken_barh(spans, (lane - 0.36, 0.72), facecolors=colours, linewidth=0, snap=snap)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    shares = [
        f"{_line(speaker.label, _MOST_LETTERS)}  {speaker.share:.0%}" for speaker in statistics.speakers
    ]
    axes.set_yticks(range(len(labels)), labels=shares, fontsize=8, color=_INK, parse_math=False)
    axes.tick_params(axis="y", length=0)
    if not labels:
        axes.text(
            0.5, 0.5, "no speech found", transform=axes.transAxes, ha="center", va="center", color=_SOFT
        )


def _draw_time(axes: Axes, duration_s: float) -> None:
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    step_s = next((step for step in _STEPS_S if duration_s / step <= _MOST_TICKS), _STEPS_S[-1])
    decimals = 1 if step_s < 1 else 0
    axes.set_xlim(0, max(duration_s, 1e-3))
    axes.xaxis.set_major_locator(MultipleLocator(step_s))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda time_s, _: clock(max(time_s, 0), decimals)))
    axes.tick_params(axis="x", labelsize=8, labelcolor=_SOFT, color=_SOFT)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_SOFT)


def _draw_wave(axes: Axes, peaks: npt.NDArray[np.uint8], columns: int) -> None:
    starts = np.unique(np.linspace(0, len(peaks), min(columns, len(peaks)), endpoint=False).astype(int))
    heights = np.maximum.reduceat(peaks, starts).astype(np.float64)
    axes.fill_between(starts, heights, -heights, step="mid", color="#9aa5b6", linewidth=0)
    axes.set_xlim(0, len(peaks))
    axes.set_ylim(-280, 280)
    axes.set_axis_off()


def _line(text: str, most: int) -> str:
    """One line of at most so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
