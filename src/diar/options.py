"""What a caller may ask of one recording, and the checks on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from diar.errors import InvalidOption

MAX_SPEAKERS = 100  # memory grows with the count; more voices than this are no meeting
MAX_FILE_ID_CHARACTERS = 200


@dataclass(frozen=True)
class Options:
    """Request parameters of ``diarize``.

    num_speakers: the exact count; or min_speakers and max_speakers as bounds. file_id: names the recording
    in RTTM; blanks and control characters become ``_``. timings: add seconds by stage to RESULT.
    """

    num_speakers: int | None = None
    min_speakers: int | None = None
    max_speakers: int | None = None
    file_id: str = "recording"
    timings: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidOption for counts out of range or in contradiction."""
        for name in ("num_speakers", "min_speakers", "max_speakers"):
            count = getattr(self, name)
            if count is not None and not 1 <= count <= MAX_SPEAKERS:
                raise InvalidOption("E_OPTION_COUNT", f"{name}: got {count}, expected 1 to {MAX_SPEAKERS}")
        if self.num_speakers is not None and (self.min_speakers or self.max_speakers):
            raise InvalidOption(
                "E_OPTION_CONFLICT", "got num_speakers together with a bound, expected one or the other"
            )
        if self.min_speakers and self.max_speakers and self.min_speakers > self.max_speakers:
            raise InvalidOption(
                "E_OPTION_CONFLICT",
                f"got min_speakers {self.min_speakers} > max_speakers {self.max_speakers}",
            )
        object.__setattr__(self, "file_id", clean_file_id(self.file_id))

    @property
    def bounds(self) -> tuple[int, int | None]:
        """The least and the greatest count of speakers asked for (1 and None: no wish)."""
        if self.num_speakers is not None:
            return self.num_speakers, self.num_speakers
        return self.min_speakers or 1, self.max_speakers

    @property
    def requested(self) -> int | dict[str, int | None] | None:
        """The wish as RESULT repeats it: None, the exact count, or both bounds."""
        if self.num_speakers is not None:
            return self.num_speakers
        if self.min_speakers is None and self.max_speakers is None:
            return None
        return {"min": self.min_speakers, "max": self.max_speakers}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object]) -> Options:
        """Check request parameters, as they arrive over gRPC or HTTP, and build the options.

        >>> Options.from_parameters({"num_speakers": 2, "file_id": "my call"})
        Options(num_speakers=2, min_speakers=None, max_speakers=None, file_id='my_call', timings=False)

        Raises InvalidOption for an unknown name, a wrong type, a count out of range, a contradiction.
        """
        kinds: dict[str, type] = {
            "num_speakers": int,
            "min_speakers": int,
            "max_speakers": int,
            "file_id": str,
            "timings": bool,
        }
        if unknown := sorted(parameters.keys() - kinds.keys()):
            raise InvalidOption("E_OPTION_UNKNOWN", f"got {', '.join(unknown)}; known: {', '.join(kinds)}")
        for name, value in parameters.items():
            if type(value) is not kinds[name]:
                raise InvalidOption(
                    "E_OPTION_TYPE", f"{name}: got {value!r}, expected {_type_name(kinds[name])}"
                )
        return cls(**parameters)  # type: ignore[arg-type]  # the loop above has checked each type


def clean_file_id(text: str) -> str:
    """An RTTM file id: no blanks, no control characters, valid UTF-8, never empty, of bounded length.

    >>> clean_file_id(" a call/1 "), clean_file_id("")
    ('a_call/1', 'recording')
    """
    cleaned = re.sub(r"[\s\x00-\x1f\x7f\ud800-\udfff]+", "_", text.strip())
    return cleaned[:MAX_FILE_ID_CHARACTERS] or "recording"


def _type_name(kind: type) -> str:
    return {int: "an integer", str: "a string", bool: "true or false"}[kind]
