"""Local speakers that are two people: told apart by the voices of their pieces, and given a slot each.

Over a telephone or from far away the segmentation sometimes takes two people for one local speaker though
they speak in turns. The trunk's frames are there anyway; so each piece between two pauses is embedded by
itself, and a local speaker's pieces are divided in two. If these are rather two speakers than one, by the
score that merges clusters (``diar.evidence``), and the window has a slot to spare, one part moves there.
Everything is done for all windows at once, without waiting for the device.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from diar.powerset import class_members, powerset_classes
from diar.profile import SAMPLE_RATE, ClusteringConstants
from diar.spans import Geometry

PAUSE_S = 0.15  # a longer one ends a piece
PIECE_S = 1.5  # what is longer is cut into equal pieces of about this
SURER = 1.4  # times kappa: in one place and one pass of the trunk a second of speech tells more
LEAST_PIECE_S = 0.8  # of clean speech: a shorter piece goes with the nearest in time


class Splitter:
    """Splits the local speakers of windows; its tables lie on ``device``."""

    def __init__(self, geometry: Geometry, constants: ClusteringConstants, device: torch.device) -> None:
        frames_per_s = SAMPLE_RATE / geometry.frame_step
        self._constants = msgspec.structs.replace(constants, kappa=SURER * constants.kappa)
        self._frame_s = 1 / frames_per_s
        self._pause = max(1, round(PAUSE_S * frames_per_s))
        self._longest = PIECE_S * frames_per_s
        self._members = torch.from_numpy(class_members(geometry)).to(device)
        self._exchanges = exchanges(geometry).to(device)
        room = max(1, int(geometry.frames * self._frame_s / LEAST_PIECE_S))  # for so many pieces in a window
        self._pieces = torch.arange(room, device=device)

    def split(self, logits: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """The scores of all windows, with the local speakers apart that are two people.

        logits: (window, frame, klass). embed: from masks (window, mask, frame) bool to (window, mask, dim).
        In the frames that move the scores of two local speakers change places; no other frame is touched.
        """
        active = self._members[logits.argmax(dim=-1)].transpose(1, 2)  # (window, slot, frame)
        alone = active & (active.sum(dim=1, keepdim=True) == 1)
        piece = self._judged(active, alone)  # (window, slot, frame)
        heard = torch.where(alone, piece, -1).amax(dim=1)  # only one of the slots is alone
        masks = heard[:, None] == self._pieces[:, None]  # (window, piece, frame)
        frames = alone.to(logits.dtype) @ masks.to(logits.dtype).transpose(1, 2)
        seconds = frames * self._frame_s  # (window, slot, piece)
        vectors = normalize(embed(masks), dim=-1)
        score, second = divide(vectors, seconds, self._constants)
        parts = torch.stack([(seconds * ~second).sum(dim=-1), (seconds * second).sum(dim=-1)])
        used = active.any(dim=-1)
        split = (score < 0) & (parts.amin(dim=0) >= self._constants.min_clean_s)
        split &= ~used.all(dim=1, keepdim=True)
        slot = torch.where(split, score, torch.inf).argmin(dim=1)  # at most one in a window
        free = (~used).to(torch.uint8).argmax(dim=1)
        at = torch.arange(len(logits), device=logits.device), slot
        moving = second[at] ^ (parts[1] > parts[0])[at][:, None]  # the longer part stays
        moved = spread(piece[at], moving) & active[at] & split[at][:, None]
        exchange = self._exchanges[slot, free][:, None].expand_as(logits)
        return torch.where(moved[..., None], logits.gather(2, exchange), logits)

    def _judged(self, active: Tensor, alone: Tensor) -> Tensor:
        """The pieces of enough clean speech to be embedded, numbered in each window; −1 elsewhere.

        All of them (window, slot, frame).
        """
        first = piece_starts(active, self._pause, self._longest)
        enough = (piece_sums(first, alone) * self._frame_s >= LEAST_PIECE_S) & active
        number = (first & enough).flatten(1).cumsum(dim=1).reshape(first.shape) - 1
        return torch.where(enough, number, -1)


def piece_starts(active: Tensor, pause: int, longest: float) -> Tensor:
    """The first frames of the pieces of each row, (..., frame) bool as ``active``.

    pause, longest: in frames.

    >>> piece_starts(torch.tensor([[1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1]]).bool(), 2, 3.0).int().tolist()
    [[1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]]
    """
    count = active.shape[-1]
    frame = torch.arange(count, device=active.device)
    begin = _run_starts(active, pause)
    end = count - 1 - _run_starts(active.flip(-1), pause).flip(-1)
    length = (end - begin + 1).clamp(min=1)
    pieces = (length / longest).round().clamp(min=1).long()
    grows = torch.where(active, begin * count + (frame - begin) * pieces // length, -1)
    return grows > pad(grows.cummax(dim=-1).values[..., :-1], (1, 0), value=-1)


def piece_sums(first: Tensor, counted: Tensor) -> Tensor:
    """How many frames count in the piece that each frame is in: (..., frame) int64.

    first: (..., frame) bool, where pieces begin. counted: (..., frame) bool.

    >>> piece_sums(torch.tensor([[1, 0, 0, 1, 0]]).bool(), torch.tensor([[0, 1, 1, 1, 0]]).bool()).tolist()
    [[2, 2, 2, 1, 1]]
    """
    total = counted.long().cumsum(dim=-1)
    before = total - counted.long()
    begin = torch.where(first, before, 0).cummax(dim=-1).values
    ends = torch.where(first, before, total[..., -1:])
    ends = torch.cat([ends[..., 1:], total[..., -1:]], dim=-1)
    return ends.flip(-1).cummin(dim=-1).values.flip(-1) - begin


def _run_starts(active: Tensor, pause: int) -> Tensor:
    """Where the run of each active frame begins; a run goes on over ``pause`` frames and fewer."""
    frame = torch.arange(active.shape[-1], device=active.device)
    long_ago = -pause - 2
    last = torch.where(active, frame, long_ago).cummax(dim=-1).values
    before = pad(last[..., :-1], (1, 0), value=long_ago)
    starts = active & (frame - before > pause + 1)
    return torch.where(starts, frame, 0).cummax(dim=-1).values


def divide(vectors: Tensor, seconds: Tensor, constants: ClusteringConstants) -> tuple[Tensor, Tensor]:
    """Divide the pieces of each local speaker in two: each goes with one of the pair that is least alike.

    vectors: (window, piece, dim) of length 1. seconds: (window, slot, piece), 0 if it is another's.
    Returns (window, slot) the score of one speaker against two, infinity where there are no two parts, and
    (window, slot, piece) bool, the pieces of the second part.
    """
    owned = seconds > 0
    each = seconds.amax(dim=1)
    r2 = (each / (each + constants.c_s)).clamp(0.2, 0.9)
    nu = constants.kappa * r2 / (1 - r2)  # as in evidence.row_evidence, (window, piece)
    force = (nu / r2.sqrt())[..., None] * vectors
    count = nu.shape[1]
    index = torch.arange(count, device=nu.device)
    pairs = owned[..., None] & owned[:, :, None] & (index[:, None] < index)
    alike = scores((nu, force), (nu, force), constants)  # (window, piece, piece)
    least = torch.where(pairs, alike[:, None], torch.inf).flatten(2).argmin(dim=-1)  # (window, slot)
    one, two = (
        alike.gather(1, seed[..., None].expand(-1, -1, count)) for seed in (least // count, least % count)
    )
    first, second = owned & (one >= two), owned & (one < two)
    (nu1, force1), (nu2, force2) = _sums(first, nu, force), _sums(second, nu, force)
    parts = (nu1[..., None], force1[..., None, :]), (nu2[..., None], force2[..., None, :])
    score = scores(*parts, constants)[..., 0, 0]
    return torch.where(first.any(dim=-1) & second.any(dim=-1), score, torch.inf), second


def scores(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor], constants: ClusteringConstants) -> Tensor:
    """The merging score (``diar.evidence``) of each i with each j: (..., i, j).

    one, two: precision (..., i) and (..., j), force (..., i, dim) and (..., j, dim).
    """
    (v1, m1), (v2, m2) = _capped(*one, constants), _capped(*two, constants)
    norm1, norm2 = m1.square().sum(dim=-1), m2.square().sum(dim=-1)
    pooled = norm1[..., None] + norm2[..., None, :] + 2 * m1 @ m2.transpose(-1, -2)
    together = _likelihood(v1[..., None] + v2[..., None, :], pooled, constants)
    return (
        together
        - _likelihood(v1, norm1, constants)[..., None]
        - _likelihood(v2, norm2, constants)[..., None, :]
    )


def _sums(part: Tensor, nu: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """Precision and force of a part, (window, slot, piece) bool: (window, slot) and (window, slot, dim)."""
    chosen = part.to(nu.dtype)
    return (chosen @ nu[..., None])[..., 0], chosen @ force


def _capped(nu: Tensor, force: Tensor, constants: ClusteringConstants) -> tuple[Tensor, Tensor]:
    cap = 1 + nu / constants.vmax
    return nu / cap, force / cap[..., None]


def _likelihood(v: Tensor, norm2: Tensor, constants: ClusteringConstants) -> Tensor:
    return norm2 / (1 / constants.b + v) - torch.log1p(constants.b * v)


def spread(piece: Tensor, chosen: Tensor) -> Tensor:
    """Whether the piece nearest to each frame is chosen; of two the earlier counts.

    piece: (window, frame), −1 where there is none. chosen: (window, piece) bool. Returns (window, frame).
    """
    count = piece.shape[1]
    frame = torch.arange(count, device=piece.device)
    before = torch.where(piece >= 0, frame, -count).cummax(dim=1).values
    after = torch.where(piece >= 0, frame, 2 * count).flip(1).cummin(dim=1).values.flip(1)
    nearest = torch.where(frame - before <= after - frame, before, after).clamp(0, count - 1)
    return chosen.gather(1, piece.gather(1, nearest).clamp(min=0))


def exchanges(geometry: Geometry) -> Tensor:
    """The class that each class becomes if two local speakers change places: (slot, slot, klass).

    >>> exchanges(Geometry(160_000, 16_000, 32, 589, 270, 991, 3, 2))[0, 2].tolist()
    [0, 3, 2, 1, 6, 5, 4]
    """
    classes = powerset_classes(geometry.local_speakers, geometry.max_overlap)
    place = {klass: index for index, klass in enumerate(classes)}

    def exchanged(klass: tuple[int, ...], one: int, two: int) -> int:
        other = {one: two, two: one}
        return place[tuple(sorted(other.get(slot, slot) for slot in klass))]

    slots = range(geometry.local_speakers)
    return torch.tensor(
        [[[exchanged(klass, one, two) for klass in classes] for two in slots] for one in slots]
    )
