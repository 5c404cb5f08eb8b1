"""``python -m diar.supervise.health``: whether the server here is ready; a container's health check.

It asks the supervisor, which runs a real inference in each model again and again and follows those at work.
A request of its own would need the API key, and would wait behind recordings on a server that is only busy.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from collections.abc import Sequence


def problems(host: str, port: int, timeout_s: float) -> list[str]:
    """Why the server is not ready; empty if it is."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        return [] if answer.status == 200 else [str(why) for why in json.load(answer)["why"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as err:
        return [f"no answer from {host}:{port}: {err}"]
    finally:
        connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="health", description="Is the server ready? Exit 0 if so.")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8003, help="scripts/serve --health-port")
    parser.add_argument("--timeout", type=float, default=4.0, metavar="SECONDS", help="default: %(default)g")
    options = parser.parse_args(arguments)
    found = problems(options.host, options.port, options.timeout)
    print("\n".join(found) or "ready")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
