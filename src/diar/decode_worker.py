"""``python -m diar.decode_worker``: decodes one file in a process that may be ended at any time.

Arguments: the descriptor to read the file from, the one to write 16 kHz mono int16 samples to (both open,
without a name anywhere), the greatest number of samples, of bytes of memory and of seconds of CPU. Prints one
JSON document: ``{"notes": [...]}``, or ``{"error": "E_WORD|text"}``.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from typing import Any

OPEN_FILES = 64


def limit(max_bytes: int, max_cpu_s: int) -> None:
    """Let the kernel keep this process within bounds."""
    for what, most in (
        (resource.RLIMIT_AS, max_bytes),
        (resource.RLIMIT_CPU, max_cpu_s),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def decode(source: int, target: int, max_samples: int) -> dict[str, Any]:
    """Decode what the descriptor ``source`` holds into ``target``; the document to print."""
    from diar_client.decode import decode_stream  # imports libav: within the limits

    from diar.errors import DiarError

    try:
        with os.fdopen(source, "rb") as stream:
            decoded = decode_stream(stream, "the file", max_samples=max_samples)
        with os.fdopen(target, "wb") as output:
            output.write(decoded.samples.data)
    except DiarError as err:
        return {"error": str(err)}
    except MemoryError:
        return {"error": "E_AUDIO_MEMORY|the file: it takes too much memory to decode"}
    return {"notes": decoded.notes}


def main(arguments: Sequence[str]) -> int:
    """Command line; returns the exit status."""
    source, target, max_samples, max_bytes, max_cpu_s = (int(argument) for argument in arguments)
    limit(max_bytes, max_cpu_s)
    print(json.dumps(decode(source, target, max_samples)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
