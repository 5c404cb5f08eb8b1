"""A stub that outlives its server ends itself."""

from __future__ import annotations

import os
import signal
import threading
import time

_POLL_S = 0.5
_GRACE_S = 2.0  # an idle stub notices by itself, and then cleans up


def end_with_server() -> None:
    """Kill this process soon after its parent, tritonserver, is gone.

    One whose ``execute`` ends after that hangs for ever by itself, and the supervisor may be gone as well.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), name="lifeline", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    time.sleep(_GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
