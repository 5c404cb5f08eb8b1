"""How cost and memory grow with the length of a recording: in one request, block by block, and live.

Starts a server of its own for each mode; options after ``--`` go to scripts/serve. Prints seconds by stage,
the most memory of the server's processes (PSS) and of the client (RSS), and draws them. The longest
recordings take long: in a mode, one after the other, from the shortest to the longest.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from diar.artifacts import replacing
from diar.errors import DiarError
from diar.profile import SAMPLE_RATE
from diar.tools.bench_setting import QUIET, clean_up_when_told_to_stop, machine, our_commit, versions
from diar.tools.chaos import split_arguments
from diar.tools.conversation import Scenario
from diar.tools.live_server import running_server
from diar.tools.process_cost import counting_cpu, pss_mb, watching_pss
from diar.tools.scale_figures import MODES, growth, markdown, plot, row
from diar.tools.simulate import simulate, write_conversation
from diar.tools.workers import working

LENGTHS_S = (600.0, 3600.0, 10_800.0, 36_000.0)
MOST_IN_ONE_REQUEST_S = 4 * 3600.0  # the server's limit, max_recording_s
_EVERY_S = 1.0
_CHUNK_S = 60


def write_recording(options: argparse.Namespace, length_s: float, folder: Path) -> Path:
    """A wav file of this length: simulated, or the given one again and again."""
    wav = folder / f"{length_s:g}.wav"
    if wav.is_file():
        return wav
    if options.audio is None:
        scenario = Scenario(num_speakers=options.num_speakers, length_s=length_s)
        write_conversation(simulate(options.speakers, scenario), wav)
        return wav
    samples, rate = soundfile.read(options.audio, dtype="int16")
    with soundfile.SoundFile(wav, "w", rate, channels=1, subtype="PCM_16") as file:
        for start in range(0, round(length_s * rate), _CHUNK_S * rate):
            end = min(start + _CHUNK_S * rate, round(length_s * rate))
            file.write(samples[np.arange(start, end) % len(samples)])
    return wav


def measure_mode(options: argparse.Namespace, mode: str, folder: Path) -> Iterator[dict[str, Any]]:
    """One mode's rows, from the shortest recording to the longest that it takes."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(options.serve, [*QUIET, *options.more]))
        command = [sys.executable, "-m", "diar.tools.scale_client", server.url]
        client = stack.enter_context(working("client", command))
        first = write_recording(options, min(options.lengths), folder)
        client.ask({"audio": str(first), "mode": mode})  # warm
        base = pss_mb(server.processes())
        for length_s in sorted(options.lengths):
            if mode == "server" and length_s > MOST_IN_ONE_REQUEST_S:
                continue
            audio = write_recording(options, length_s, folder)
            watching = watching_pss(server.processes, _EVERY_S)
            with counting_cpu(server.processes) as cpu, watching as peak:
                answer = client.ask({"audio": str(audio), "mode": mode})
            yield row(mode, length_s, answer, cpu.seconds, peak.mb, base)


def scale(options: argparse.Namespace) -> dict[str, Any]:
    """The report."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for mode in options.modes:
            for figures in measure_mode(options, mode, Path(folder)):
                rows.append(figures)
                print(json.dumps(figures), file=sys.stderr, flush=True)
    what = options.audio.name if options.audio else f"simulated conversations of {options.num_speakers}"
    return {
        "commit": our_commit(options.engines_dir.resolve()),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "what": f"{what}, served with {' '.join(options.more) or 'the defaults'}",
        "sample_rate": SAMPLE_RATE,
        "rows": rows,
        "growth": growth(rows),
    }


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    own, more = split_arguments(list(arguments))
    parser = argparse.ArgumentParser(prog="scale", description=__doc__)
    add = parser.add_argument
    add("--speakers", type=Path, metavar="DIR", help="what conversations are made of, see scripts/simulate")
    add("--audio", type=Path, metavar="FILE", help="16 kHz mono, repeated to each length, instead")
    add("--num-speakers", type=int, default=6, metavar="N", help="default: %(default)s")
    add(
        "--lengths",
        type=_lengths,
        default=list(LENGTHS_S),
        metavar="S,S",
        help="default: 600,3600,10800,36000",
    )
    add("--modes", type=_modes, default=["server", "blocks"], help="default: server,blocks; also stream")
    add("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    add("--serve", type=Path, default=Path("scripts/serve"), metavar="COMMAND")
    add("--json", type=Path, metavar="FILE", help="write the report there, too")
    add("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    add("--plot", type=Path, metavar="FILE", help="draw it to this PNG file")
    options = parser.parse_args(own)
    if (options.speakers is None) == (options.audio is None):
        parser.error("expected one of --speakers DIR and --audio FILE")
    options.serve, options.more = options.serve.resolve(), more
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    clean_up_when_told_to_stop()
    try:
        document = scale(options)
        text = markdown(document)
        for file, content in [(options.json, json.dumps(document, indent=1)), (options.markdown, text)]:
            if file:
                with replacing(file.resolve()) as draft:
                    draft.write_text(content + "\n", encoding="utf-8")
        if options.plot:
            plot(document["rows"], options.plot)
    except (DiarError, OSError) as err:
        print(f"error: {err.text if isinstance(err, DiarError) else err}", file=sys.stderr)
        return 1
    print(text)
    return 0


def _lengths(text: str) -> list[float]:
    lengths = [float(part) for part in text.split(",")]
    if min(lengths) <= 0:
        raise argparse.ArgumentTypeError(f"got {text}, expected seconds")
    return lengths


def _modes(text: str) -> list[str]:
    modes = text.split(",")
    if unknown := sorted(set(modes) - set(MODES)):
        raise argparse.ArgumentTypeError(f"got {', '.join(unknown)}, expected some of {', '.join(MODES)}")
    return modes


if __name__ == "__main__":
    sys.exit(main())
