"""What a caller may ask of a live recording: with its START, and with each piece of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diar.errors import InvalidOption
from diar.options import Options

LATENCY_S = (0.5, 5.0)  # least and greatest
STEP_S = (0.1, 5.0)
MAX_TOKEN_CHARACTERS = 200


@dataclass(frozen=True)
class StreamOptions:
    """Request parameters of a START, beside those of every piece.

    live: with a live view of who is speaking; without one only the end has a result. latency: seconds of
    sound until a turn of the live view is final. step: least seconds of sound from one look of the live view
    to the next. options: as for ``diarize``.
    """

    live: bool = True
    latency: float = 1.0
    step: float = 0.5
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Raise InvalidOption for values out of range."""
        for name, (least, most) in (("latency", LATENCY_S), ("step", STEP_S)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidOption(
                    "E_OPTION_RANGE", f"{name}: got {value:g} s, expected {least:g} to {most:g} s"
                )
        if self.step > self.latency:
            raise InvalidOption("E_OPTION_CONFLICT", f"got step {self.step:g} > latency {self.latency:g}")

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object]) -> StreamOptions:
        """Check request parameters and build the options.

        >>> StreamOptions.from_parameters({"latency": 2, "num_speakers": 3}).latency
        2.0

        Raises InvalidOption for an unknown name, a wrong type, a value out of range, a contradiction.
        """
        rest = dict(parameters)
        seconds = {name: _seconds(name, rest.pop(name)) for name in ("latency", "step") if name in rest}
        live = rest.pop("live", True)
        if not isinstance(live, bool):
            raise InvalidOption("E_OPTION_TYPE", f"live: got {live!r}, expected true or false")
        return cls(live=live, **seconds, options=Options.from_parameters(rest))


@dataclass(frozen=True)
class ChunkOptions:
    """Request parameters of every piece.

    stream_token: a text that the caller makes up for the recording, the same with each piece. first_sample:
    where in the recording the piece begins; with it a piece may be sent again. None: behind what is there.
    """

    stream_token: str
    first_sample: int | None = None

    @classmethod
    def take_from(cls, parameters: dict[str, object]) -> ChunkOptions:
        """Take these parameters out of all that came with a request; InvalidOption for a bad one."""
        token, first = parameters.pop("stream_token", None), parameters.pop("first_sample", None)
        if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
            raise InvalidOption(
                "E_OPTION_TOKEN",
                f"stream_token: got {token!r:.50}, expected a text of up to {MAX_TOKEN_CHARACTERS} characters"
                " that names the stream, the same with every request",
            )
        if first is not None and (type(first) is not int or first < 0):
            raise InvalidOption("E_OPTION_TYPE", f"first_sample: got {first!r}, expected a count of samples")
        return cls(token, first)

    def num_known(self, num_samples: int, taken: int) -> int:
        """How many of the piece's ``num_samples`` samples are already among the ``taken`` ones.

        >>> ChunkOptions("a", first_sample=100).num_known(50, taken=120)
        20

        Raises InvalidOption if samples between the two are missing.
        """
        first = taken if self.first_sample is None else self.first_sample
        if first > taken:
            raise InvalidOption(
                "E_OPTION_POSITION",
                f"first_sample: got {first}, expected at most {taken}: samples are missing",
            )
        return min(taken - first, num_samples)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidOption("E_OPTION_TYPE", f"{name}: got {value!r}, expected seconds")
    return float(value)
