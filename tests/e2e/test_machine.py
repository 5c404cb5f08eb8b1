"""A machine that is not as needed: one clear line each."""

import os
import shutil
import subprocess
import sys

import pytest
from live import ROOT, free_ports


def in_a_mount_namespace(script, *arguments):
    """Run a shell script with mounts of its own; skip where that is not allowed."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace of our own here")
    return subprocess.run(
        [unshare, "-m", "sh", "-ec", script, "sh", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "VIRTUAL_ENV": os.environ.get("VIRTUAL_ENV", str(ROOT / ".venv"))},
    )


def serve_arguments(repository):
    names = ("http", "grpc", "metrics", "health")
    ports = [f"--{name}-port={port}" for name, port in zip(names, free_ports(), strict=True)]
    return [ROOT / "scripts" / "serve", "--cpu", "--model-repository", repository, *ports]


def test_dockers_shared_memory_is_too_small_and_the_line_says_what_is_needed():
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm; exec "$@"'
    ended = in_a_mount_namespace(script, *serve_arguments(ROOT / "model_repository"))
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: /dev/shm has 64 MiB free; ")
    assert " MiB are needed to start, " in line
    assert "with Docker: --shm-size=" in line


@pytest.mark.skipif(
    any(str(path).startswith(("/tmp/", "/var/tmp/")) for path in (ROOT, sys.prefix)),
    reason="checkout or Python lie where the full disk is to be",
)
def test_full_disk_is_one_clear_line():
    """There is nowhere to put the run folder."""
    mounts = (
        "for disk in /tmp /var/tmp; do mount -t tmpfs -o size=4k,nr_inodes=1 tmpfs $disk; done; cd /tmp; "
    )
    script = mounts + 'unset TMPDIR; exec "$@"'
    ended = in_a_mount_namespace(script, *serve_arguments(ROOT / "model_repository"))
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("error: No usable temporary directory found in ")
    assert "Traceback" not in ended.stderr
