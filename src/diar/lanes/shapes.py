"""The input shapes that a network is given, for plans that are built for a range of shapes."""

from __future__ import annotations

from diar.fbank import num_fbank_frames
from diar.network_files import Network
from diar.plans import Dims, Shapes
from diar.profile import Profile, load_profile, profile_names
from diar.spans import Geometry

FBANK_BINS = 80
LEAST_TRUNK_FRAMES = 100  # pure passes are as long as a multiple of this


def input_shapes(profile: Profile, network: Network) -> Shapes:
    """Shapes that a network is given: 1 … windows_per_block windows, or one stretch of fbank frames.

    >>> from diar.profile import load_profile
    >>> profile = load_profile("pyannote_campplus")
    >>> str(input_shapes(profile, "segmentation")), str(input_shapes(profile, "trunk"))
    ('[1, 160000] to [32, 160000]', '[1, 100, 80] to [1, 4098, 80]')
    """
    geometry = profile.geometry
    if network == "trunk":
        return _trunk_shapes(_most_trunk_frames(geometry))
    window: Dims = (geometry.window,)
    if profile.segmentation.front_end == "fbank":
        window = (num_fbank_frames(geometry.window), FBANK_BINS)
    block = (geometry.windows_per_block, *window)
    return Shapes((1, *window), block, block)


def plan_shapes(profile: Profile, network: Network) -> Shapes:
    """Shapes to build a plan for: of the trunk, whose file many profiles share, up to the longest of all."""
    if network == "segmentation":
        return input_shapes(profile, network)
    known = [load_profile(name) for name in profile_names()]
    sharing = [other for other in known if other.embedding.network == profile.embedding.network]
    return _trunk_shapes(max(_most_trunk_frames(other.geometry) for other in [profile, *sharing]))


def _most_trunk_frames(geometry: Geometry) -> int:
    """Frames of a span, or of a window rounded up to a whole pure pass where that is more."""
    window = num_fbank_frames(geometry.window)
    pure = -(-window // LEAST_TRUNK_FRAMES) * LEAST_TRUNK_FRAMES
    return max(num_fbank_frames(geometry.span_samples()), pure)


def _trunk_shapes(most: int) -> Shapes:
    return Shapes((1, LEAST_TRUNK_FRAMES, FBANK_BINS), (1, most, FBANK_BINS), (1, most, FBANK_BINS))
