"""One block: a span of audio in, local speaker scores and embeddings out.

On a GPU everything runs on one non-default stream, with one copy to it, one back and one synchronise before
the results leave (the two-tier variant synchronises once more, to learn how many frames each speaker has to
itself); on a CPU the same lines run without a stream, and where a lane has threads of its own fbank, trunk,
splitting and pooling run beside the segmentation. Nothing is kept from one block to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from diar.alignment import nearest_frames, trunk_frames_per_window
from diar.audio import check_samples
from diar.errors import InternalError, InvalidAudio, SetupError
from diar.fbank import Fbank
from diar.front_end import fbank_windows, normalise, waveform_windows
from diar.lanes.choose import choose_lane
from diar.lanes.exact import ExactLane
from diar.networks.campplus import centred_moments, load_campplus, load_campplus_head, pool_moments
from diar.networks.load import segmentation_module
from diar.pipeline import BlockResult, Stage
from diar.powerset import class_members
from diar.profile import SAMPLE_RATE, TRUNK_STEP_SAMPLES, Profile
from diar.pure_passes import MIN_PURE_FRAMES, PurePasses
from diar.spans import Geometry
from diar.splitting import Splitter
from diar.transfer import Transfer


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
        frames = trunk_frames_per_window(self._geometry)
        self._trunk_index = nearest_frames(self._geometry, frames, TRUNK_STEP_SAMPLES).to(self._device)
        self._pure = PurePasses(self._trunk, self._head, self._geometry, self._device)
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
            return np.asarray(self._pure.start(own)().cpu().numpy())

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
        """Both networks beside each other, and what comes behind them as soon as some windows are there."""
        geometry, fbank = self._geometry, self._profile.segmentation.fbank
        features = self._features(span) if fbank else span.new_zeros(0)
        windows = fbank_windows(features, geometry, fbank) if fbank else waveform_windows(span, geometry)
        rows = self._segmentation.rows_at_once or len(windows)
        started = [self._segmentation.start(part) for part in torch.split(windows, rows)]
        if embeddings and not fbank:
            features = self._features(span)
        step = self._profile.pure_step(len(windows))
        whole = embeddings and (spans or not step)
        trunk = self._trunk.start(normalise(features)[None]) if whole else None
        moments: tuple[Tensor, Tensor] | None = None
        parts = []
        for number, outputs in enumerate(started):
            with self._stage("segmentation, trunk"):
                logits = outputs()
                if trunk and not moments:
                    moments = centred_moments(trunk()[0])
            _check_logits(logits, min(rows, len(windows) - number * rows), geometry)
            pool = partial(self._span_embeddings, *moments, number * rows) if moments else None
            parts.append(self._speakers(logits, pool if embeddings else None))
        logits, masks, speech, vectors = map(joined, zip(*parts, strict=True))
        pure = torch.zeros_like(vectors)
        if not embeddings:
            return logits, vectors, torch.zeros_like(speech), pure
        if step:
            with self._stage("pure passes"):
                self._pure.of_windows(features, masks, step, pure)
        return logits, vectors, speech, pure

    def _features(self, span: Tensor) -> Tensor:
        with self._stage("fbank"):
            return self._fbank(span)

    def _speakers(
        self, logits: Tensor, pool: Callable[[Tensor], Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the scores of some windows say of their local speakers.

        logits: (window, frame, klass). pool: embeds under masks, see ``_span_embeddings``; None leaves the
        embeddings zero. Returns the scores, with the local speakers apart that are two people; the frames
        that each is embedded from, (window, local_speaker, frame) bool; clean seconds; embeddings.
        """
        if pool:
            with self._stage("splitting"):
                logits = self._splitter.split(logits, pool)
        activity = self._members[logits.argmax(dim=-1)]  # (window, frame, local_speaker) bool
        clean = activity & (activity.sum(dim=-1, keepdim=True) == 1)
        speech = clean.sum(dim=1) * (self._geometry.frame_step / SAMPLE_RATE)
        enough = speech >= self._profile.embedding.min_clean_s
        masks = torch.where(enough[:, None, :], clean, activity).transpose(1, 2)
        if not pool:
            return logits, masks, speech, speech.new_zeros(*speech.shape, self._profile.embedding.dim)
        with self._stage("pooling"):
            return logits, masks, speech, pool(masks)

    def _span_embeddings(self, centre: Tensor, moments: Tensor, first: int, masks: Tensor) -> Tensor:
        """The trunk's statistics pooled under every mask of every window.

        centre, moments: of the span's trunk frames. first: which window the masks begin with. masks: (window,
        mask, frame) bool. Returns (window, mask, dim), zero rows for empty masks.
        """
        geometry = self._geometry
        frames, hop = trunk_frames_per_window(geometry), geometry.hop // TRUNK_STEP_SAMPLES
        windows = moments.unfold(0, frames, hop)[first : first + len(masks)].transpose(1, 2)  # views, no copy
        pooled = masks[:, :, self._trunk_index]  # a single frame may be nearest to no trunk frame
        statistics = pool_moments(centre, windows, pooled.to(moments.dtype))
        vectors = self._head.run(statistics.flatten(0, 1)).reshape(*masks.shape[:2], -1)
        return vectors.mul(pooled.any(dim=-1, keepdim=True))


def _new_stream(device: torch.device) -> torch.cuda.Stream | None:
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch does not annotate it


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts of a block, in one."""
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts))


def _check_logits(logits: Tensor, windows: int, geometry: Geometry) -> None:
    """Raise InternalError unless a network that was brought along answers in the profile's shape."""
    shape = (windows, geometry.frames, geometry.num_classes)
    if tuple(logits.shape) != shape:
        raise InternalError("E_INTERNAL_SHAPE", f"LOGITS: got {tuple(logits.shape)}, expected {shape}")


def _expected_lengths(got: int, geometry: Geometry) -> str:
    return (
        f"got {got} samples, expected {geometry.window} + (n - 1) * {geometry.hop}"
        f" for n = 1 … {geometry.windows_per_block} windows"
    )
