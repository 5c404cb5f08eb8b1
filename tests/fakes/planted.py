"""Networks that hear exactly the turns that were planted, each voice a direction of its own."""

import asyncio

import numpy as np

from diar.pipeline import BlockResult, diarize
from diar.powerset import powerset_classes
from diar.profile import SAMPLE_RATE

S = SAMPLE_RATE
CONVERSATION = [  # the second speaks first; the first two overlap; the third speaks at the very end
    (2 * S, 20 * S, 7),
    (15 * S, 40 * S, 3),
    (45 * S, 52 * S, 7),
    (52 * S + 4_000, 60 * S, 3),
    (62 * S, 75 * S, 5),
]
LENGTH = 75 * S  # 66 windows in 3 blocks


class PlantedNets:
    """Answers blocks of the recording that ``samples`` gives.

    turns: (start, end, voice) in samples; a frame is active if its centre lies in the turn. noise: length of
    what is added to each embedding, drawn for each window. Local speakers change places with every window.
    """

    def __init__(self, profile, turns, noise=0.0):
        self.profile = profile
        self.turns = turns
        self.noise = noise

    def samples(self, num_samples):
        """(samples,) int16: at each window's start the window's index, by which a block is recognised."""
        samples = np.zeros(num_samples, np.int16)
        marks = samples[:: self.profile.geometry.hop]
        marks[:] = np.arange(len(marks))
        return samples

    def window(self, index):
        """(voices, (frame, local_speaker) bool) of one window: the voices in the order of their slots."""
        geometry = self.profile.geometry
        start = index * geometry.hop + geometry.frame_field // 2
        centres = start + np.arange(geometry.frames) * geometry.frame_step
        activity = {}
        for begin, end, voice in self.turns:
            heard = (begin <= centres) & (centres < end)
            if heard.any():
                activity[voice] = activity.get(voice, False) | heard
        voices = sorted(activity)
        voices = voices[index % max(1, len(voices)) :] + voices[: index % max(1, len(voices))]
        active = np.zeros((geometry.frames, geometry.local_speakers), bool)
        for slot, voice in enumerate(voices):
            active[:, slot] = activity[voice]
        return voices, active

    def answer(self, span):
        """The BlockResult of a span of ``samples``."""
        geometry, dim = self.profile.geometry, self.profile.embedding.dim
        num_windows = geometry.windows_of_span(len(span))
        first = round(float(span[0]) * 32_768)
        sets = powerset_classes(geometry.local_speakers, geometry.max_overlap)
        classes = {members: klass for klass, members in enumerate(sets)}
        logits = np.full((num_windows, geometry.frames, geometry.num_classes), -9.0, np.float32)
        vectors = np.zeros((num_windows, geometry.local_speakers, dim), np.float32)
        pure = np.zeros_like(vectors)
        speech = np.zeros(vectors.shape[:2], np.float32)
        for window in range(num_windows):
            voices, active = self.window(first + window)
            for frame, members in enumerate(active):
                logits[window, frame, classes[tuple(np.flatnonzero(members).tolist())]] = -0.01
            alone = active & (active.sum(axis=1, keepdims=True) == 1)
            speech[window] = alone.sum(axis=0) * geometry.frame_step / SAMPLE_RATE
            for slot, voice in enumerate(voices):
                vectors[window, slot] = self._embedding(voice, first + window)
        step = self.profile.pure_step(num_windows)
        if step:
            pure[::step] = vectors[::step]
        return BlockResult(logits, vectors, speech, pure, ("planted", "planted"))

    async def run(self, span):
        """``answer`` as a slot of the pipeline."""
        return self.answer(span)

    def _embedding(self, voice, window):
        dim = self.profile.embedding.dim
        vector = np.random.default_rng([voice, window]).normal(size=dim)
        vector *= self.noise / np.linalg.norm(vector)
        vector[voice] += 1
        return 4 * vector


def run(nets, num_samples=LENGTH, slots=None, options=None, **more):
    """The result of the first samples of the planted recording."""
    samples = nets.samples(num_samples)
    return asyncio.run(diarize(samples, nets.profile, slots or [nets.run], options, **more))
