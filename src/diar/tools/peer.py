"""Runs another diarizer in that one's own environment, for ``bench``: one line of JSON in, one out.

    python -I peer.py senko THREADS
    python -I peer.py sherpa-onnx THREADS SEGMENTATION.onnx EMBEDDING.onnx THRESHOLD

Nothing of this project is imported. The first line out says how long loading took, see ``workers``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Answer = tuple[list[tuple[float, float, str]], dict[str, float]]  # turns, seconds by stage
Diarize = Callable[[str], tuple[float, float, Answer]]  # a wav file to wall seconds, CPU seconds, answer


def senko(threads: int) -> Diarize:
    """Senko as it comes for a CPU (Silero for speech, CAM++), but without its warm-up."""
    import senko as package

    diarizer = package.Diarizer(device="cpu", warmup=False, quiet=True)
    diarizer.logical_cores = threads

    def diarize(audio: str) -> tuple[float, float, Answer]:
        began, used = time.perf_counter(), time.process_time()
        found = diarizer.diarize(audio) or {"merged_segments": [], "timing_stats": {}}
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
        turns = [(turn["start"], turn["end"], turn["speaker"]) for turn in found["merged_segments"]]
        seconds = {name.removesuffix("_time"): value for name, value in found["timing_stats"].items()}
        seconds.pop("total", None)
        return wall_s, cpu_s, (turns, seconds)

    return diarize


def sherpa_onnx(threads: int, segmentation: str, embedding: str, threshold: float) -> Diarize:
    """sherpa-onnx with ONNX files that carry the metadata it asks for."""
    import sherpa_onnx as package
    import soundfile

    config = package.OfflineSpeakerDiarizationConfig(
        segmentation=package.OfflineSpeakerSegmentationModelConfig(
            pyannote=package.OfflineSpeakerSegmentationPyannoteModelConfig(model=segmentation),
            num_threads=threads,
        ),
        embedding=package.SpeakerEmbeddingExtractorConfig(model=embedding, num_threads=threads),
        clustering=package.FastClusteringConfig(num_clusters=-1, threshold=threshold),
    )
    if not config.validate():
        raise SystemExit("sherpa-onnx does not take its configuration")
    diarizer = package.OfflineSpeakerDiarization(config)

    def diarize(audio: str) -> tuple[float, float, Answer]:
        samples, _ = soundfile.read(audio, dtype="float32")
        began, used = time.perf_counter(), time.process_time()
        found = diarizer.process(samples).sort_by_start_time()
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
        return wall_s, cpu_s, ([(turn.start, turn.end, str(turn.speaker)) for turn in found], {})

    return diarize


def make(arguments: Sequence[str]) -> Diarize:
    """The diarizer that the command line asks for."""
    name, threads, *more = arguments
    if name == "senko":
        return senko(int(threads))
    segmentation, embedding, threshold = more
    return sherpa_onnx(int(threads), segmentation, embedding, float(threshold))


def main() -> int:
    """Command line; returns the exit status."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the diarizer prints is no answer

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    began = time.perf_counter()
    diarize = make(sys.argv[1:])
    say({"load_s": time.perf_counter() - began})
    for line in sys.stdin:
        wall_s, cpu_s, (turns, seconds) = diarize(json.loads(line)["audio"])
        say({"wall_s": wall_s, "cpu_s": cpu_s, "stages": seconds, "turns": turns})
    return 0


if __name__ == "__main__":
    sys.exit(main())
