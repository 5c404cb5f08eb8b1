"""Write a copy of the model repository: for GPUs, replicas on the CPU, another profile, lane, more streams.

The committed repository stays as it is. scripts/serve does the same for the same options and serves the copy.
A second run changes nothing; --check says what a run would change.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from diar.errors import SetupError
from diar.variants import Variant, differences, engines_folder, variant_files, write_repository


def count_gpus() -> int:
    """NVIDIA GPUs that this machine shows; SetupError (E_GPU) if there is none."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SetupError("E_GPU", f"cannot count the GPUs: nvidia-smi: {err}") from err
    count = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    if listed.returncode != 0 or not count:
        raise SetupError(
            "E_GPU", f"nvidia-smi lists no GPU: {listed.stderr.strip() or listed.stdout.strip()}"
        )
    return count


def gpu_count(text: str) -> int:
    """A number of GPUs as typed; ``auto``: as many as there are. ValueError for anything else."""
    count = count_gpus() if text == "auto" else int(text)
    if count < 1:
        raise ValueError(text)
    return count


def prepare_repository(
    source: Path,
    gpus: str | None,
    replicas: int | None,
    profile: str | None,
    streams: int | None = None,
    lane: str | None = None,
) -> Path:
    """What ``scripts/serve`` serves with these options: ``source`` without any, else its written copy.

    gpus: as typed. Raises SetupError: E_GPU, E_COUNT, E_PROFILE, E_REPOSITORY, E_FILES.
    """
    if not gpus and not replicas and not profile and streams is None and not lane:
        return source
    variant = make_variant(gpus, replicas, profile, streams, lane)
    out = engines_folder(source) / "repository" / variant.folder
    write_repository(variant_files(source, variant, out), out)
    return out


def make_variant(
    gpus: str | None,
    replicas: int | None,
    profile: str | None,
    streams: int | None = None,
    lane: str | None = None,
) -> Variant:
    """The variant of these options; SetupError (E_COUNT) for counts that are none."""
    try:
        models = replicas if replicas is not None else gpu_count(gpus or "1")
    except ValueError:
        raise SetupError("E_COUNT", f"got {gpus!r} GPUs, expected a number or auto") from None
    if models < 1:
        raise SetupError("E_COUNT", f"got {models} replicas, expected at least 1")
    if streams is not None and streams < 1:
        raise SetupError("E_COUNT", f"got {streams} streams, expected at least 1")
    return Variant(models, replicas is not None, profile, streams, lane)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="add_gpus", description=__doc__)
    count = parser.add_mutually_exclusive_group()
    count.add_argument("gpus", nargs="?", metavar="N", help="a diar_nn model for each of N GPUs")
    count.add_argument("--auto", action="store_true", help="one for each GPU here")
    count.add_argument("--replicas", type=int, metavar="R", help="R diar_nn models that share the CPU")
    parser.add_argument("--profile", help="name, or path of a .toml file; default: the repository's")
    parser.add_argument("--streams", type=int, metavar="N", help="N live recordings at once")
    parser.add_argument("--lane", help="of both networks; default: the repository's")
    parser.add_argument("--model-repository", type=Path, default=Path("model_repository"), metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: where scripts/serve puts it")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a run would")
    options = parser.parse_args(arguments)
    try:
        source = options.model_repository.resolve()
        gpus = "auto" if options.auto else options.gpus
        variant = make_variant(gpus, options.replicas, options.profile, options.streams, options.lane)
        out = (options.out or engines_folder(source) / "repository" / variant.folder).resolve()
        files = variant_files(source, variant, out)
        if options.check:
            lines = differences(files, out)
            print("\n".join(lines) if lines else f"{out}: as it should be")
            return 1 if lines else 0
        written = write_repository(files, out)
    except SetupError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    print(f"{out}: {'written' if written else 'already there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
