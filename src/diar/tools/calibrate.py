"""Measure what the embeddings of a profile say about voices, from single-speaker utterances.

SPEAKERS_DIR holds one sub-folder of flac or wav files a speaker. Prints cosines of one speaker and of two,
and the equal error rate, by seconds of speech; the constants c_s and b of the evidence merge that follow from
them, beside those of the profile, and how far they move when a speaker is left out. --judge prints the DER on
labelled recordings with each of these values. --write saves the table beside the profile.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from diar.artifacts import replacing
from diar.block import BlockRunner
from diar.errors import DiarError
from diar.profile import Profile, load_profile
from diar.tools.evaluate import find_pairs
from diar.tools.fitting import PERCENTILES, Fit, Row, fit, leave_one_out, table
from diar.tools.heard import hear_file, judge
from diar.tools.stretches import all_pairs, embed_stretches
from diar.tools.utterances import list_speakers


def table_path(profile: str) -> Path:
    """Where the calibration of a profile, by name or by path, is kept."""
    if profile.endswith(".toml"):
        return Path(profile).with_suffix(".calibration.json")
    return Path(str(resources.files("diar.profiles"))) / f"{profile}.calibration.json"


def document(profile: Profile, fitted: Fit, others: Sequence[Fit], rows: Sequence[Row]) -> dict[str, Any]:
    """The calibration as JSON. percentiles: those in ``same`` and ``different``; rates are fractions."""
    return {
        "profile": profile.name,
        "embedding_sha256": profile.embedding.weights.sha256,
        "speakers": len(others),
        "c_s": round(fitted.c_s, 3),
        "b": round(fitted.b, 3),
        "leave_one_speaker_out": {
            name: [round(bound([getattr(other, name) for other in others]), 3) for bound in (min, max)]
            for name in ("c_s", "b")
        },
        "percentiles": PERCENTILES,
        "durations": [
            {
                "seconds": row.seconds,
                "pairs": row.pairs,
                "same": [round(score, 3) for score in row.same],
                "different": [round(score, 3) for score in row.different],
                "equal_error": None if row.equal_error is None else round(row.equal_error, 4),
                "threshold": None if row.threshold is None else round(row.threshold, 3),
            }
            for row in rows
        ],
    }


def lines(calibration: dict[str, Any], profile: Profile) -> Iterator[str]:
    """What a person reads of a calibration."""
    yield "seconds   pairs same/different   cosine same 5/50/95 %   different 5/50/95 %   equal error, at"
    for row in calibration["durations"]:
        pairs = "/".join(map(str, row["pairs"]))
        same, different = (
            " ".join(f"{row[kind][PERCENTILES.index(p)]:5.2f}" for p in (5, 50, 95))
            for kind in ("same", "different")
        )
        rate = "too few pairs"
        if row["equal_error"] is not None:
            rate = f"{100 * row['equal_error']:5.1f} %, {row['threshold']:.2f}"
        yield f"{row['seconds']:7.2f}   {pairs:>20}   {same:>21}   {different:>19}   {rate}"
    for name in ("c_s", "b"):
        low, high = calibration["leave_one_speaker_out"][name]
        yield (
            f"{name}: fitted {calibration[name]:.2f} ({low:.2f} to {high:.2f} with a speaker left out),"
            f" in the profile {getattr(profile.clustering, name):.2f}"
        )


def judged(
    folder: Path, profile: Profile, runner: BlockRunner, fitted: Fit, others: Sequence[Fit]
) -> Iterator[str]:
    """DER with the profile's constants, with the fitted ones, and with those of each refit."""
    recordings = [hear_file(*pair, profile, runner) for pair in find_pairs(folder)]
    present = Fit(profile.clustering.c_s, profile.clustering.b)
    refits = sorted({(round(other.c_s, 2), round(other.b, 2)) for other in others})
    rows = [("profile", present), ("fitted", fitted), *(("one left out", Fit(*refit)) for refit in refits)]
    yield f"{folder.name:14}   c_s      b    DER %   count error   (collar 0, overlap scored)"
    ders = []
    for title, values in rows:
        constants = msgspec.structs.replace(profile.clustering, c_s=values.c_s, b=values.b)
        der, count = judge(recordings, msgspec.structs.replace(profile, clustering=constants))
        ders.append(100 * der)
        yield f"{title:14}  {values.c_s:.2f}   {values.b:.2f}   {ders[-1]:6.2f}   {count:11.2f}"
    yield f"with a speaker left out {min(ders[2:]):.2f} to {max(ders[2:]):.2f} % DER, fitted {ders[1]:.2f} %"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="calibrate", description=__doc__)
    parser.add_argument("speakers_dir", type=Path, metavar="SPEAKERS_DIR")
    parser.add_argument(
        "--judge", type=Path, nargs="+", default=[], metavar="DIR", help="of <id>.flac and <id>.rttm"
    )
    parser.add_argument("--write", action="store_true", help="save the table beside the profile")
    parser.add_argument("--profile", default="pyannote_campplus", help="name, or path of a .toml file")
    parser.add_argument("--engines-dir", type=Path, default=Path("engines"), metavar="DIR")
    parser.add_argument("--lane", default="auto", help="auto, exact or openvino, for both networks")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="0: as many as there are cores")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        profile = load_profile(options.profile)
        speakers = list_speakers(options.speakers_dir)
        runner = BlockRunner(
            profile,
            options.engines_dir.resolve() / "build",
            segmentation_lane=options.lane,
            embedding_lane=options.lane,
            threads=options.threads,
        )
        pairs = all_pairs(embed_stretches(speakers, runner))
        fitted, others = fit(pairs), leave_one_out(pairs, len(speakers))
        calibration = document(profile, fitted, others, table(pairs))
        print("\n".join(lines(calibration, profile)), flush=True)
        if options.write:
            with replacing(table_path(options.profile)) as draft:
                draft.write_text(json.dumps(calibration, indent=1) + "\n", encoding="utf-8")
            print(f"written to {table_path(options.profile)}", flush=True)
        for folder in options.judge:
            for line in judged(folder, profile, runner, fitted, others):
                print(line, flush=True)
    except DiarError as err:
        print(f"error: {err.text}", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"error: cannot write {table_path(options.profile)}: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
