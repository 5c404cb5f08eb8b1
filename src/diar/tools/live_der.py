"""What a listener saw: DER of the live view, for several latencies, beside that of the final turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from diar.live import LiveView
from diar.pipeline import BlockResult
from diar.profile import Profile
from diar.spans import Samples
from diar.stream_options import StreamOptions
from diar.streaming import AudioTail
from diar.tools.der import Errors, pool
from diar.tools.scores import COLLARS_PER_SIDE_S, errors_document
from diar.turns import Turn

LATENCIES_S = (0.5, 1.0, 2.0, 5.0)
STEP_S = 0.5

Run = Callable[[npt.NDArray[np.float32]], BlockResult]
LiveErrors = dict[float, tuple[Errors, ...]]  # by latency; one for each of COLLARS_PER_SIDE_S


def live_turns(samples: Samples, profile: Profile, run: Run) -> dict[float, list[Turn]]:
    """By latency, the turns as they were committed, and what was tentative when the recording ended.

    The recording comes in pieces of ``STEP_S``; windows that are looked at are the same for all latencies.
    """
    step = round(STEP_S * profile.sample_rate)
    options = StreamOptions(step=STEP_S)
    views = {each: LiveView(profile, replace(options, latency=each)) for each in LATENCIES_S}
    turns: dict[float, list[Turn]] = {latency: [] for latency in LATENCIES_S}
    tail, first, *others = AudioTail(), *views.values()
    tentative: dict[float, tuple[Turn, ...]] = {}
    for start in range(0, len(samples), step):
        tail.append(samples[start : start + step])
        tail.forget(first.needed_from(tail.end))
        for span in first.due(tail.end):
            result = run(tail.take(span.start, span.end))
            for view in (first, *others):
                view.add(span, result)
        for latency, view in views.items():
            update = view.update(tail.end)
            turns[latency] += update.committed
            tentative[latency] = update.tentative
    return {latency: [*turns[latency], *tentative[latency]] for latency in LATENCIES_S}


def live_report(files: Sequence[LiveErrors]) -> list[dict[str, Any]]:
    """The pooled errors as JSON documents, one a latency; DERs are fractions."""
    return [
        {
            "latency": latency,
            "der": [
                errors_document(collar, pool(file[latency][index] for file in files))
                for index, collar in enumerate(COLLARS_PER_SIDE_S)
            ],
        }
        for latency in LATENCIES_S
    ]


def live_lines(document: Sequence[dict[str, Any]], final: Sequence[dict[str, Any]]) -> list[str]:
    """The report in words. final: ``der`` of the pooled final turns."""
    rows = [(f"live, {row['latency']:g} s late", row["der"]) for row in document] + [("final", final)]
    return [
        f"{name:<17}" + "   ".join(_words(part) for part in parts if part["der"] is not None)
        for name, parts in rows
    ]


def _words(part: dict[str, Any]) -> str:
    kinds = "/".join(f"{100 * part[kind]:.1f}" for kind in ("missed", "false_alarm", "confusion"))
    return f"DER {100 * part['der']:5.2f} % (miss/fa/conf {kinds}) @{part['collar_per_side']:g} s"
