"""Score the diarization of every <id>.flac or <id>.wav of a folder against its <id>.rttm.

Prints, per file and pooled, the DER with its missed, false-alarm and confusion parts at collar 0 and at
0.25 s a side, overlap scored; speakers in the reference and found; seconds of compute per minute of audio.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from diar_client import DiarizationClient
from diar_client.decode import Pcm, decode_file
from rich.console import Console

from diar.block import BlockRunner
from diar.errors import DiarError, SetupError
from diar.local import diarize_local
from diar.options import Options
from diar.pipeline import BlockResult
from diar.profile import SAMPLE_RATE, Profile, load_profile
from diar.result import Diarization
from diar.tools.confidence import judge_turns, lines
from diar.tools.der import read_rttm
from diar.tools.live_der import LiveErrors, live_lines, live_report, live_turns
from diar.tools.scores import FileScore, report, score_turns, summary, table
from diar.tools.utterances import AUDIO_SUFFIXES

Diarize = Callable[[Pcm, Options], Diarization]


def find_pairs(folder: Path) -> list[tuple[Path, Path]]:
    """The recordings of a folder that have a reference: (audio, rttm), sorted; SetupError if none."""
    pairs = [
        (audio, audio.with_suffix(".rttm"))
        for audio in sorted(folder.glob("*"))
        if audio.suffix.lower() in AUDIO_SUFFIXES and audio.with_suffix(".rttm").is_file()
    ]
    if not pairs:
        raise SetupError("E_FILE", f"no <id>.flac or <id>.wav with an <id>.rttm in {folder}")
    return pairs


def score_file(diarize: Diarize, audio: Path, rttm: Path, *, known_count: bool = False) -> FileScore:
    """Diarize one file and compare; known_count: tell it the reference's number of speakers."""
    samples, reference = decode_file(audio).samples, read_rttm(rttm)
    speakers = len({turn.speaker for turn in reference})
    options = Options(num_speakers=speakers if known_count and speakers else None, file_id=audio.stem)
    began = time.perf_counter()
    found = diarize(samples, options)
    seconds = time.perf_counter() - began
    return FileScore(
        file_id=audio.stem,
        duration_s=len(samples) / SAMPLE_RATE,
        reference_speakers=speakers,
        found_speakers=len(found.speakers),
        seconds=seconds,
        errors=score_turns(reference, found.turns, len(samples)),
        judged=tuple(judge_turns(reference, found.turns, len(samples))),
        profile=found.profile,
        lanes=found.lanes,
    )


def local_runner(profile: Profile, engines_dir: Path, lane: str, threads: int) -> BlockRunner:
    """The networks of ``engines_dir/build`` on the CPU of this process."""
    return BlockRunner(
        profile, engines_dir / "build", "cpu", segmentation_lane=lane, embedding_lane=lane, threads=threads
    )


def local_diarizer(profile: Profile, runner: BlockRunner) -> Diarize:
    """Diarize in this process."""
    return lambda samples, options: diarize_local(samples, profile, runner, options)


def remote_diarizer(url: str) -> Diarize:
    """Diarize with the server at ``url``."""
    client = DiarizationClient(url)
    return lambda samples, options: client.diarize(
        samples, num_speakers=options.num_speakers, file_id=options.file_id
    )


def score_live(profile: Profile, runner: BlockRunner, audio: Path, rttm: Path) -> LiveErrors:
    """Play one file to the live view, as fast as it can, and compare what it showed."""
    samples, reference = decode_file(audio).samples, read_rttm(rttm)

    def run(span: npt.NDArray[np.float32]) -> BlockResult:
        """As the server does: where every window has pure embeddings, these alone."""
        every = profile.pure_step(profile.geometry.windows_of_span(len(span)) or 0) == 1
        return runner.run(span, spans=not every)

    shown = live_turns(samples, profile, run)
    return {latency: score_turns(reference, turns, len(samples)) for latency, turns in shown.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--known-count", action="store_true", help="tell the reference's number of speakers")
    parser.add_argument(
        "--confidence", action="store_true", help="print how well it tells right seconds from wrong ones"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    remote = parser.add_argument_group("through a server")
    remote.add_argument("--url", help="its address; by default the networks run in this process")
    remote.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="at once; s/min then includes waiting"
    )
    local = parser.add_argument_group("in this process")
    local.add_argument("--live", action="store_true", help="DER of the live view as well, by latency")
    local.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    local.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    local.add_argument("--lane", default="auto", help="auto, exact or openvino, for both networks")
    local.add_argument("--threads", type=int, default=0, metavar="N", help="0: as many as there are cores")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    live: list[LiveErrors] = []
    try:
        pairs = find_pairs(options.folder)
        if options.url:
            if options.live:
                raise SetupError("E_ARGUMENTS", "--live runs in this process, not with --url")
            diarize, jobs = remote_diarizer(options.url), options.jobs
        else:
            profile = load_profile(options.profile)
            runner = local_runner(profile, options.engines_dir.resolve(), options.lane, options.threads)
            diarize, jobs = local_diarizer(profile, runner), 1
            live = [score_live(profile, runner, *pair) for pair in pairs] if options.live else []
        one_file = partial(score_file, diarize, known_count=options.known_count)
        with ThreadPoolExecutor(jobs) as pool:
            scores = list(pool.map(one_file, *zip(*pairs, strict=True)))
        document = report(scores) | ({"live": live_report(live)} if live else {})
        if options.json:
            options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    console = Console(width=100, highlight=False)
    console.print(table(document))
    for line in summary(document):
        console.print(line, soft_wrap=True)
    for line in live_lines(document["live"], document["pooled"]["der"]) if live else ():
        console.print(line, soft_wrap=True)
    if options.confidence:
        for line in lines([turn for score in scores for turn in score.judged]):
            console.print(line, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
