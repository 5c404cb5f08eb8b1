"""What went wrong on the way to a server, as an error of ``diar.errors``."""

from __future__ import annotations

from diar.errors import (
    Cancelled,
    DiarError,
    InternalError,
    NetsUnavailable,
    Overloaded,
    StreamExpired,
    parse_error,
)


class ServerUnreachable(DiarError):
    """No server answers at the URL, or the connection broke; a server that restarts comes back."""

    code = "UNAVAILABLE"

    @classmethod
    def at(cls, url: str, reason: str) -> ServerUnreachable:
        """The error for ``url``; only the first line of ``reason`` is kept."""
        first_line = reason.splitlines()[0] if reason else "no reason given"
        return cls("E_SERVER_UNREACHABLE", f"no answer from {url}: {first_line[:300]}")


class ServerRefused(DiarError):
    """The server answers, but is none that this client can talk to."""

    code = "INVALID_ARG"

    @classmethod
    def not_kserve(cls, url: str) -> ServerRefused:
        """The error for an answer that is not of Triton's protocol."""
        return cls("E_SERVER_PROTOCOL", f"what answers at {url} is no Triton server")

    @classmethod
    def not_trusted(cls, url: str) -> ServerRefused:
        """The error for a certificate that nobody known has signed, or that is another host's."""
        return cls("E_SERVER_CERTIFICATE", f"{url}: its certificate is not one to trust (see ca)")


FULL_QUEUE = ("Exceeds maximum queue size", "Request timeout expired")  # a stream's errors carry no status
NO_SHARED_MEMORY = (
    "Failed to increase the shared memory pool"  # for the request itself, before any of our code
)
RESTRICTED = "is restricted, expecting header"
LOST_SEQUENCE = "must specify the START flag"
LATE = "E_CANCELLED_DEADLINE"
RETRYABLE = (Overloaded, NetsUnavailable, ServerUnreachable)


def server_error(url: str, code: str, message: str) -> DiarError:
    """The error for what Triton answered.

    code: name of the gRPC status, or the HTTP status as a number.

    >>> server_error("grpc://h:1", "INTERNAL", "Stub process 'diarize_0_0' is not healthy.")
    NetsUnavailable("E_NETS_STUB|grpc://h:1: Stub process 'diarize_0_0' is not healthy.")
    >>> server_error("http://h:1", "503", "E_OVERLOADED_QUEUE|got 17 requests, expected at most 16")
    Overloaded('E_OVERLOADED_QUEUE|got 17 requests, expected at most 16')
    """
    if error := parse_error(message):
        return error
    text = f"{url}: {' '.join(message.split())}"
    if RESTRICTED in message or code in ("401", "403"):
        return ServerRefused("E_SERVER_KEY", f"{url}: it wants an API key, and not the one it was given")
    if LOST_SEQUENCE in message:
        return StreamExpired("E_STREAM_EXPIRED", f"{url}: the stream is known no more; start a new one")
    if "is not healthy" in message:
        return NetsUnavailable("E_NETS_STUB", text)
    if NO_SHARED_MEMORY in message:
        return Overloaded("E_OVERLOADED_MEMORY", text)
    if code in ("NOT_FOUND", "404") or "has no available versions" in message:
        return NetsUnavailable("E_NETS_MODEL", text)
    if code in ("UNAVAILABLE", "503") or any(text in message for text in FULL_QUEUE):
        return Overloaded("E_OVERLOADED", text)
    if code in ("CANCELLED", "DEADLINE_EXCEEDED"):
        return Cancelled("E_CANCELLED", text)
    return InternalError("E_INTERNAL", f"{text} ({code})")


def no_answer_in_time(url: str) -> Cancelled:
    """The error for a deadline that passed on this side."""
    return Cancelled(LATE, f"no answer from {url} before the time-out")
