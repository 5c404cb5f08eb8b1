"""The live recordings of one instance, by the ids that their callers gave them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from diar.errors import InvalidOption, Overloaded, StreamExpired
from diar.live import Unconfirmed
from diar.result import Diarization
from diar.stream_options import StreamOptions
from diar.streaming import StreamingDiarization

StreamId = int | str


@dataclass
class Stream:
    """One live recording. turn: held by the request that is at work on it; they come in order."""

    token: str
    timings: bool
    diarization: StreamingDiarization
    last_used: float
    unconfirmed: Unconfirmed = field(default_factory=Unconfirmed)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    closed: bool = False

    def close(self) -> None:
        """Nothing more will come of it."""
        self.closed = True
        self.diarization.close()


class Streams:
    """At most ``most`` live recordings; those not heard of for ``idle_s`` can be swept away.

    The token keeps streams apart whose callers happened to choose the same id. The result of one that has
    ended stays as long, in case its answer was lost on the way.
    """

    def __init__(self, most: int, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._streams: dict[StreamId, Stream] = {}
        self._results: dict[tuple[StreamId, str], tuple[float, Diarization]] = {}
        self._most = most
        self._idle_s = idle_s
        self._clock = clock

    def __len__(self) -> int:
        """How many there are."""
        return len(self._streams)

    def start(
        self, key: StreamId, token: str, options: StreamOptions, diarization: StreamingDiarization
    ) -> Stream:
        """A new stream; one of the same id and token that is still there begins anew.

        Raises InvalidOption if another caller has the id, Overloaded if there are too many.
        """
        known = self._streams.get(key)
        if known is not None:
            self._check_token(known, key, token)
            self.drop(key, known)
        if len(self._streams) >= self._most:
            raise Overloaded(
                "E_OVERLOADED_STREAMS", f"{self._most} streams are open, as many as there may be; try again"
            )
        stream = Stream(token, options.options.timings, diarization, self._clock())
        self._streams[key] = stream
        self._results.pop((key, token), None)
        return stream

    def find(self, key: StreamId, token: str) -> Stream:
        """A stream that was started; StreamExpired if there is none, InvalidOption if it is another's."""
        stream = self._streams.get(key)
        if stream is None:
            raise expired(key)
        self._check_token(stream, key, token)
        stream.last_used = self._clock()
        return stream

    def finish(self, key: StreamId, stream: Stream, result: Diarization) -> None:
        """A stream has ended."""
        self.drop(key, stream)
        self._results[key, stream.token] = self._clock(), result

    def result(self, key: StreamId, token: str) -> Diarization | None:
        """The result of a stream that has ended, if it is known and none of its name has begun since."""
        _, result = self._results.get((key, token), (0.0, None))
        return result

    def drop(self, key: StreamId, stream: Stream) -> None:
        """Forget a stream, unless another one has taken its place."""
        stream.close()
        if self._streams.get(key) is stream:
            del self._streams[key]

    def sweep(self) -> int:
        """Drop the streams that nobody has used for too long; how many they were."""
        latest = self._clock() - self._idle_s
        idle = [
            (key, stream)
            for key, stream in self._streams.items()
            if stream.last_used < latest and not stream.turn.locked()
        ]
        for key, stream in idle:
            self.drop(key, stream)
        self._results = {name: kept for name, kept in self._results.items() if kept[0] >= latest}
        return len(idle)

    def _check_token(self, stream: Stream, key: StreamId, token: str) -> None:
        if stream.token != token:
            raise InvalidOption(
                "E_OPTION_TOKEN", f"stream_token: the id {key} belongs to a stream with another token"
            )


def expired(key: StreamId) -> StreamExpired:
    """The error for a piece of a stream that is not there."""
    return StreamExpired(
        "E_STREAM_UNKNOWN",
        f"no stream {key} here: it ended, was silent too long, or its server was started anew",
    )
