"""A folder of the supervisor's own while it runs."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_PREFIX = "diar_run_"
_LOCK = "lock"
_NEW_S = 60.0  # a folder as new as this may not be locked yet


@contextmanager
def run_folder(parent: Path | None = None) -> Iterator[Path]:
    """Make a folder that nobody else can read, and remove it at the end.

    Those of supervisors that were killed are removed as well: their lock is free.
    """
    parent = parent or Path(tempfile.gettempdir())
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove run folders whose supervisor is gone."""
    for file in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), file.open() as lock:  # somebody else's, or gone by now
            if time.time() - file.stat().st_mtime > _NEW_S and _can_lock(lock):
                shutil.rmtree(file.parent, ignore_errors=True)


def _can_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
