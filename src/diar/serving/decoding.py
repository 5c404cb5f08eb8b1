"""Decoding a file that came with a request, in a process that cannot take the model with it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diar.errors import InternalError, InvalidAudio, parse_error

# one thread: the pool of a linear algebra library would take its share of the memory limit
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecodingLimits:
    """What one file may take: seconds (of time, and of CPU), bytes of memory, samples of the result."""

    seconds: int
    memory_bytes: int
    samples: int


def decode_apart(content: bytes, limits: DecodingLimits) -> tuple[npt.NDArray[np.int16], list[str]]:
    """16 kHz mono samples of a file's ``content``, and notes on how it was read.

    Neither it nor the result has a name in a file system. Raises InvalidAudio if it cannot be decoded, or
    not within the limits.
    """
    source, target = os.memfd_create("file"), os.memfd_create("samples")
    try:
        with os.fdopen(os.dup(source), "wb") as file:
            file.write(content)
        os.lseek(source, 0, os.SEEK_SET)
        document = _run_worker(source, target, limits)
        if "error" in document:
            raise parse_error(document["error"]) or InternalError("E_INTERNAL", document["error"])
        with os.fdopen(os.dup(target), "rb") as output:
            output.seek(0)
            return np.fromfile(output, np.int16), list(document["notes"])
    finally:
        os.close(source)
        os.close(target)


def _run_worker(source: int, target: int, limits: DecodingLimits) -> dict[str, str]:
    numbers = (source, target, limits.samples, limits.memory_bytes, limits.seconds)
    try:
        worker = subprocess.run(
            [sys.executable, "-m", "diar.decode_worker", *map(str, numbers)],
            pass_fds=(source, target),
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limits.seconds,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise InvalidAudio(
            "E_AUDIO_DECODING", f"the file: decoding took more than {limits.seconds} s"
        ) from None
    if worker.returncode:
        log.warning("decoding ended with %d: %s", worker.returncode, worker.stderr[-2000:])
        raise InvalidAudio("E_AUDIO_DECODING", "the file: decoding broke off or went over its limits")
    document: dict[str, str] = json.loads(worker.stdout)
    return document
