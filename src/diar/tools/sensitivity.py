"""How much the result hangs on each constant of the clustering: DER with each one 25 % lower and higher.

The networks run once per recording; clustering and stitching are then repeated with every change. The
pre-cut cosine goes between 0.60 and 0.80.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from diar.block import BlockRunner
from diar.errors import DiarError
from diar.profile import Profile, load_profile
from diar.tools.evaluate import find_pairs
from diar.tools.heard import hear_file, judge

PRECUT_RANGE = (0.60, 0.80)
CHANGES = (0.75, 1.25)


def changed_profiles(profile: Profile) -> Iterator[tuple[str, float, Profile]]:
    """The profile with one constant changed: its name, its value, the profile."""
    for name in profile.clustering.__struct_fields__:
        value = getattr(profile.clustering, name)
        for changed in PRECUT_RANGE if name == "precut_cosine" else [value * change for change in CHANGES]:
            constants = msgspec.structs.replace(profile.clustering, **{name: changed})
            yield name, changed, msgspec.structs.replace(profile, clustering=constants)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="sensitivity", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="of <id>.flac and <id>.rttm")
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--lane", default="auto", help="auto, exact or openvino, for both networks")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile)
        runner = BlockRunner(
            profile,
            options.engines_dir.resolve() / "build",
            segmentation_lane=options.lane,
            embedding_lane=options.lane,
        )
        sets = [
            [hear_file(*pair, profile, runner) for pair in find_pairs(folder)] for folder in options.folders
        ]
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    titles = "  ".join(f"{folder.name[:14]:>14}" for folder in options.folders)
    print(f"{'constant':16}{'value':>8}  {titles}   (DER % at collar 0, overlap scored / mean count error)")
    for name, value, changed in [("as they are", 0.0, profile), *changed_profiles(profile)]:
        cells = [judge(recordings, changed) for recordings in sets]
        figures = "  ".join(f"{100 * der:8.2f}/{count:5.2f}" for der, count in cells)
        print(f"{name:16}{value or '':>8.4}  {figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
