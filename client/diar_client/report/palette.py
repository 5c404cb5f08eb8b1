"""The colours of speakers, in the page and in the picture."""

from __future__ import annotations

# hues that are told apart beside each other, of a contrast of 3 or more to white and to the dark page
COLOURS = (
    "#3277d5",  # blue
    "#d0671b",  # orange
    "#2b9366",  # green
    "#c74a8c",  # pink
    "#8264d2",  # violet
    "#958014",  # olive
    "#1f8ea3",  # cyan
    "#d64f4f",  # red
    "#6b8a2f",  # moss
    "#a5714a",  # brown
    "#a653c4",  # purple
    "#6f8297",  # slate
)
LIGHTEST = 0.25  # opacity of a turn with confidence 0; 1 has confidence 1


def colour(speaker: int) -> str:
    """The colour of the speaker of this index, as #rrggbb; after the last one they begin again.

    >>> colour(0) == colour(12)
    True
    """
    return COLOURS[speaker % len(COLOURS)]


def opacity(confidence: float) -> float:
    """How solid a turn is drawn.

    >>> opacity(0.0), opacity(1.0)
    (0.25, 1.0)
    """
    return LIGHTEST + (1 - LIGHTEST) * confidence
