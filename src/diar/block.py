"""One block: a span of audio in, local speaker scores and embeddings out.

On a GPU everything runs on one non-default stream, with one copy to it, one back and one synchronise before
the results leave (the two-tier variant synchronises once more, to learn how many frames each speaker has to
itself); on a CPU the same lines run without a stream, and the trunk beside the segmentation. Nothing is kept
from one block to the next.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from diar.audio import check_samples
from diar.errors import InternalError, InvalidAudio, SetupError
from diar.fbank import ENERGY_FLOOR, Fbank, num_fbank_frames
from diar.front_end import fbank_windows, waveform_windows
from diar.lanes.choose import choose_lane
from diar.lanes.exact import ExactLane
from diar.networks.campplus import (
    centred_moments,
    load_campplus,
    load_campplus_head,
    pool_moments,
    pool_statistics,
)
from diar.networks.load import segmentation_module
from diar.pipeline import BlockResult, Stage
from diar.powerset import class_members
from diar.profile import FBANK_FIELD_SAMPLES, FBANK_STEP_SAMPLES, SAMPLE_RATE, TRUNK_STEP_SAMPLES, Profile
from diar.spans import Geometry
from diar.splitting import Splitter
from diar.transfer import Transfer

SILENCE = math.log(ENERGY_FLOOR) + 1e-3  # log mel energy of digital silence, and a little
MIN_PURE_FRAMES = 20  # fbank frames (0.2 s): fewer give no pure embedding
PURE_FRAMES_STEP = 100  # pure passes are as long as a multiple of this: ten shapes for a lane to prepare


class BlockRunner:
    """Runs blocks on one device.

    profile, engines_dir: which networks, and where ``fetch_weights`` and ``export_onnx`` put them. device:
    ``cpu`` or ``cuda:<i>``. segmentation_lane, embedding_lane: see ``lanes.choose``. threads: of this
    runner on a CPU, 0 for all cores. stage: called with a stage's name, gives a context to run it in (a
    stopwatch, say; on a GPU it sees the work being queued, not done).

    Raises SetupError for weights, ONNX files or lanes that are missing, altered or not what the profile says.
    """

    def __init__(
        self,
        profile: Profile,
        engines_dir: Path,
        device: str = "cpu",
        *,
        segmentation_lane: str = "auto",
        embedding_lane: str = "auto",
        threads: int = 0,
        stage: Stage = nullcontext,
    ) -> None:
        self._profile = profile
        self._stage = stage
        self._geometry = profile.geometry
        self._device = torch.device(device)
        embed = profile.embedding.weights
        weights = engines_dir / "weights" / embed.file
        head = load_campplus_head(weights, embed.sha256)
        if (dim := head.linear.out_features) != profile.embedding.dim:
            raise SetupError(
                "E_PROFILE", f"embedding.dim is {profile.embedding.dim}, {embed.file} makes vectors of {dim}"
            )
        self._segmentation = choose_lane(
            segmentation_lane,
            "segmentation",
            segmentation_module(profile, engines_dir),
            profile,
            engines_dir,
            self._device,
            threads,
        )
        self._trunk = choose_lane(
            embedding_lane,
            "trunk",
            lambda: load_campplus(weights, embed.sha256)[0],
            profile,
            engines_dir,
            self._device,
            threads,
        )
        self._head = ExactLane(head, self._device)
        runs_networks = any(isinstance(lane, ExactLane) for lane in (self._segmentation, self._trunk))
        self._torch_threads = (threads or len(os.sched_getaffinity(0))) if runs_networks else 1
        self._fbank = Fbank(device=self._device)
        self._members = torch.from_numpy(class_members(self._geometry)).to(self._device)
        self._splitter = Splitter(self._geometry, profile.clustering, self._device)
        self._trunk_index, self._fbank_index = (
            nearest_frames(self._geometry, count, step).to(self._device)
            for count, step in (
                (trunk_frames_per_window(self._geometry), TRUNK_STEP_SAMPLES),
                (num_fbank_frames(self._geometry.window), FBANK_STEP_SAMPLES),
            )
        )
        self._stream = _new_stream(self._device)
        self._transfer = Transfer(self._device, self._geometry, profile.embedding.dim)

    @property
    def lanes(self) -> tuple[str, str]:
        """Names of the lanes of segmentation and embedding."""
        return self._segmentation.name, self._trunk.name

    def run(self, span: npt.NDArray[np.float32], embeddings: bool = True, spans: bool = True) -> BlockResult:
        """Run one block.

        span: (samples,) float32 in [-1, 1], as long as 1 … windows_per_block windows. embeddings: False
        leaves embeddings, speech and pure embeddings zero, and saves their time. spans: False leaves only
        the embeddings zero, if there are pure ones as well, and saves about half of that; local speakers that
        are two people are then not told apart (``diar.splitting``), nor are they without embeddings.

        Raises InvalidAudio for another length or samples that are none, InternalError if a network answers
        with NaN or infinity.
        """
        if span.ndim == 1 and self._geometry.windows_of_span(len(span)) is None:
            raise InvalidAudio("E_SPAN_LENGTH", _expected_lengths(len(span), self._geometry))
        check_samples(span, what="SPAN")
        if span.dtype != np.float32:
            raise InvalidAudio("E_SPAN_DTYPE", f"SPAN: got {span.dtype}, expected float32")
        with self._context():
            result = self._run(self._transfer.send(span), embeddings, spans)
            logits, vectors, speech, pure = self._transfer.fetch(result, self._synchronise)
        for name, array in (("LOGITS", logits), ("EMBEDDINGS", vectors), ("PURE_EMBEDDINGS", pure)):
            if not np.isfinite(array).all():
                raise InternalError(
                    "E_INTERNAL_NONFINITE", f"{name}: a network answered with NaN or infinity"
                )
        return BlockResult(logits, vectors, speech, pure, self.lanes)

    def embed(
        self, samples: npt.NDArray[np.float32], active: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Embed one speaker's own frames in one pass, as the pure embeddings of a block are made.

        samples: (samples,) float32 in [-1, 1]. active: (frame,) which of its fbank frames are the speaker's.
        Returns (dim,), zeros if they are fewer than MIN_PURE_FRAMES.

        Raises InvalidAudio for samples that are none.
        """
        check_samples(samples)
        with self._context():
            features = self._fbank(torch.tensor(samples, device=self._device))
            own = features[torch.tensor(active, device=self._device)]
            if len(own) < MIN_PURE_FRAMES:
                return np.zeros(self._profile.embedding.dim, np.float32)
            return np.asarray(self._pure_embedding(self._start_pure(own)()).cpu().numpy())

    def close(self) -> None:
        """Give back the networks and their memory."""
        for lane in (self._segmentation, self._trunk, self._head):
            lane.close()

    @contextmanager
    def _context(self) -> Iterator[None]:
        """Where everything runs: PyTorch without gradients, on this runner's stream or with its threads.

        The threads are the process's, so another runner may have set them. Beside a lane with threads of its
        own PyTorch has one: what is left for it are milliseconds, in which a second one is mostly waited for.
        """
        if self._device.type == "cpu" and torch.get_num_threads() != self._torch_threads:
            torch.set_num_threads(self._torch_threads)
        with torch.inference_mode(), torch.cuda.stream(self._stream) if self._stream else nullcontext():
            yield

    def _synchronise(self) -> None:
        if self._stream:
            self._stream.synchronize()

    def _run(self, span: Tensor, embeddings: bool, spans: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        geometry = self._geometry
        fbank = self._profile.segmentation.fbank
        pure_too = self._profile.pure_step(1) > 0
        whole = embeddings and (spans or not pure_too)
        with self._stage("fbank"):
            features = self._fbank(span) if embeddings or fbank else span.new_zeros(0)
        with self._stage("segmentation, trunk"):
            trunk = self._trunk.start(normalise(features)[None]) if whole else None
            windows = fbank_windows(features, geometry, fbank) if fbank else waveform_windows(span, geometry)
            logits = self._segmentation.run(windows)
            frames = trunk()[0] if trunk else None  # (channels, trunk frames)
        _check_logits(logits, (len(windows), geometry.frames, geometry.num_classes))
        shape = (len(windows), geometry.local_speakers)
        vectors = span.new_zeros(*shape, self._profile.embedding.dim)
        if not embeddings:
            return logits, vectors, span.new_zeros(shape), vectors
        if frames is not None:
            with self._stage("splitting"):
                embed = partial(self._span_embeddings, *centred_moments(frames))
                logits = self._splitter.split(logits, embed)
        activity = self._members[logits.argmax(dim=-1)]  # (window, frame, local_speaker) bool
        clean = activity & (activity.sum(dim=-1, keepdim=True) == 1)
        speech = clean.sum(dim=1) * (geometry.frame_step / SAMPLE_RATE)
        enough = speech >= self._profile.embedding.min_clean_s
        masks = torch.where(enough[:, None, :], clean, activity).transpose(1, 2)  # (window, speaker, frame)
        with self._stage("pure passes"):
            pure = self._pure_embeddings(features, masks) if pure_too else vectors
        if frames is not None:
            with self._stage("pooling"):
                vectors = embed(masks)
        return logits, vectors, speech, pure

    def _span_embeddings(self, centre: Tensor, moments: Tensor, masks: Tensor) -> Tensor:
        """The trunk's statistics pooled under every mask of every window.

        centre, moments: of the span's trunk frames. masks: (window, mask, frame) bool. Returns (window, mask,
        dim), zero rows for empty masks.
        """
        geometry = self._geometry
        frames, hop = trunk_frames_per_window(geometry), geometry.hop // TRUNK_STEP_SAMPLES
        windows = moments.unfold(0, frames, hop)[: len(masks)].transpose(1, 2)  # views, nothing is copied
        pooled = masks[:, :, self._trunk_index]  # a single frame may be nearest to no trunk frame
        statistics = pool_moments(centre, windows, pooled.to(moments.dtype))
        vectors = self._head.run(statistics.flatten(0, 1)).reshape(*masks.shape[:2], -1)
        return vectors.mul(pooled.any(dim=-1, keepdim=True))

    def _pure_embeddings(self, features: Tensor, masks: Tensor) -> Tensor:
        """One pass over each local speaker's own frames, in every ``pure_step``-th window.

        features: (frames, bins) of the span. masks: as above. Returns (window, local_speaker, dim), zero rows
        elsewhere and where a speaker has fewer than MIN_PURE_FRAMES.
        """
        geometry, step = self._geometry, self._profile.pure_step(len(masks))
        vectors = features.new_zeros(*masks.shape[:2], self._profile.embedding.dim)
        own = masks[::step][
            :, :, self._fbank_index
        ]  # (window / step, local_speaker, fbank frame of a window)
        order = own.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)  # own frames first
        started = {}
        for number, counts in enumerate(own.sum(dim=-1).tolist()):  # waits for the GPU, once
            first = number * step * geometry.hop // FBANK_STEP_SAMPLES
            for speaker, count in enumerate(counts):
                if count >= MIN_PURE_FRAMES:
                    stretch = features[first + order[number, speaker, :count]]
                    started[number * step, speaker] = self._start_pure(stretch)
        for row, trunk in started.items():
            vectors[row] = self._pure_embedding(trunk())
        return vectors

    def _start_pure(self, stretch: Tensor) -> Callable[[], Tensor]:
        """Begin one pass over frames of one speaker, (frames, bins)."""
        return self._trunk.start(fill_up(normalise(stretch))[None])

    def _pure_embedding(self, trunk: Tensor) -> Tensor:
        """What a pass gave, (1, channels, trunk frames), as a vector: (dim,)."""
        return self._head.run(pool_statistics(trunk[0], trunk.new_ones(1, trunk.shape[2])))[0]


def fill_up(features: Tensor) -> Tensor:
    """Repeat a speaker's frames from their start until their number is a multiple of PURE_FRAMES_STEP.

    features: (frames, bins), frames >= 1. Returns (frames rounded up, bins).
    """
    wanted = -(-len(features) // PURE_FRAMES_STEP) * PURE_FRAMES_STEP
    return features.repeat(-(-wanted // len(features)), 1)[:wanted]


def _new_stream(device: torch.device) -> torch.cuda.Stream | None:
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch does not annotate it


def normalise(features: Tensor) -> Tensor:
    """Take the mean over frames off; frames of digital silence count nothing and become zeros.

    features: (frames, bins) log mel energies. Zero-padding and muted stretches would otherwise pull the
    mean of a short recording far from its speech.
    """
    sound = (features > SILENCE).any(dim=1, keepdim=True).to(features.dtype)
    mean = (features * sound).sum(dim=0) / sound.sum().clamp(min=1)
    return (features - mean) * sound


def trunk_frames_per_window(geometry: Geometry) -> int:
    """Trunk frames whose fbank frames lie wholly inside one window."""
    return num_fbank_frames(geometry.window) // 2


@lru_cache
def nearest_frames(geometry: Geometry, count: int, step: int) -> Tensor:
    """Segmentation frame nearest to each of ``count`` frames that lie every ``step`` samples: (count,).

    The centre of such a frame is half an fbank frame behind its start.
    """
    centres = torch.arange(count) * step + FBANK_FIELD_SAMPLES // 2
    frames = (centres - geometry.frame_field // 2 + geometry.frame_step // 2) // geometry.frame_step
    return frames.clamp(0, geometry.frames - 1)


def _check_logits(logits: Tensor, shape: tuple[int, ...]) -> None:
    """Raise InternalError unless a network that was brought along answers in the profile's shape."""
    if tuple(logits.shape) != shape:
        raise InternalError("E_INTERNAL_SHAPE", f"LOGITS: got {tuple(logits.shape)}, expected {shape}")


def _expected_lengths(got: int, geometry: Geometry) -> str:
    return (
        f"got {got} samples, expected {geometry.window} + (n - 1) * {geometry.hop}"
        f" for n = 1 … {geometry.windows_per_block} windows"
    )
