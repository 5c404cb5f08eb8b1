"""``diarize_stream``: live recordings, each a sequence of requests (START, any number between, END).

Every request is answered as soon as it can be, while others go on: ``execute`` hands it to an event loop in
the background and returns. Triton hands on the requests of a sequence in order, and the stream's lock keeps
them so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from diar.board import Board, Work
from diar.errors import InvalidOption
from diar.live import LiveUpdate
from diar.profile import SAMPLE_RATE, load_profile
from diar.serving.answers import failed, request_parameters, start_logging
from diar.serving.background import BackgroundLoop
from diar.serving.breaker import Breaker
from diar.serving.diarize_model import recording_response, recording_samples
from diar.serving.jobs import Job, Reception
from diar.serving.lifeline import end_with_server
from diar.serving.metrics import Metrics
from diar.serving.nets import CallLimits, Nets
from diar.serving.settings import Instance, StreamSettings
from diar.serving.shared_nets import SharedNets
from diar.serving.streams import Stream, StreamId, Streams, expired
from diar.spans import Samples
from diar.stopwatch import Stopwatch
from diar.stream_options import ChunkOptions, StreamOptions
from diar.streaming import StreamingDiarization
from diar.tensors import EMBEDDINGS, PURE_OUTPUTS, RESULT, RTTM

FINISHING_AT_ONCE = 2  # streams whose turns are made out; others wait for it
NOTHING: Samples = np.zeros(0, np.int16)

log = logging.getLogger(__name__)


class TritonPythonModel:
    """Triton's view of ``diar.streaming``."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the settings; SetupError says what is wrong in them."""
        model = args["model_name"]
        start_logging(model)
        self._instance, board, self._metrics = Instance.from_arguments(args), Board.find(), Metrics()
        settings = self._settings = self._instance.settings(StreamSettings)
        self._profile = load_profile(settings.profile)
        self._work = board.work(model) if board else Work(None)
        self._reception = Reception(
            model, settings.max_request_s, settings.max_block_s, board, self._metrics, self._work
        )
        self._streams = Streams(settings.max_streams, settings.idle_s)
        self._pool = ThreadPoolExecutor(FINISHING_AT_ONCE)
        self._loop = BackgroundLoop()
        self._loop.start(self._keep_house())
        end_with_server()

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> None:
        """Have each request answered in the background, in the order in which they came."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                chunk = read_chunk(request, self._settings.max_chunk_s)
            except Exception as err:
                send(sender, failed(err))
            else:
                self._loop.start(self._answer(chunk, request, sender))

    def finalize(self) -> None:
        """Give up what is left."""
        self._loop.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _keep_house(self) -> None:
        """Before the first request: get ready. Then sweep idle streams away."""
        settings = self._settings
        nets = Nets(
            settings.nn_model_names,
            settings.blocks_in_flight,
            self._instance.name,
            Breaker(Board.find()),
            self._metrics,
        )
        limits = CallLimits(get_on=self._work.get_on, block_s=settings.max_block_s)
        self._nets = SharedNets(self._profile, nets.slots(limits), nets.slots(limits, PURE_OUTPUTS))
        while True:
            await asyncio.sleep(self._settings.idle_s / 4)
            if swept := self._streams.sweep():
                self._show_streams()
                log.info("gave up %d streams that sent nothing for %d s", swept, self._settings.idle_s)

    async def _answer(
        self,
        chunk: Chunk,
        request: pb_utils.InferenceRequest,
        sender: Any,
    ) -> None:
        began = time.monotonic()
        if chunk.ends:  # a recording, as other models take them
            with self._reception.job(request) as job:
                try:
                    response = await self._respond(chunk, job)
                except Exception as err:
                    response = job.failed(err)
        else:
            with self._work.job():
                try:
                    response = await self._respond(chunk)
                except Exception as err:
                    response = failed(err)
            self._metrics.observe("diar_chunk_seconds", time.monotonic() - began)
        send(sender, response)
        self._show_streams()

    def _show_streams(self) -> None:
        self._metrics.set("diar_streams_open", float(len(self._streams)), instance=self._instance.name)

    async def _respond(self, chunk: Chunk, job: Job | None = None) -> pb_utils.InferenceResponse:
        """job: of a chunk that ends its stream."""
        if chunk.begins:
            self._reception.check_open()
        elif job is not None and (known := self._known_result(chunk)):
            return known
        stream = self._start(chunk) if chunk.begins else self._find(chunk)
        async with stream.turn:
            if stream.closed:  # while this request waited
                if job is not None and (known := self._known_result(chunk)):
                    return known
                raise expired(chunk.stream)
            try:
                response = await self._advance(stream, chunk, job)
            except Exception:
                if chunk.begins:
                    self._streams.drop(chunk.stream, stream)
                raise
            return response

    def _known_result(self, chunk: Chunk) -> pb_utils.InferenceResponse | None:
        """The answer to an END that was answered before."""
        result = self._streams.result(chunk.stream, chunk.options.stream_token)
        return result and recording_response(result)

    def _start(self, chunk: Chunk) -> Stream:
        options = StreamOptions.from_parameters(chunk.parameters)
        diarization = StreamingDiarization(
            self._profile,
            self._nets.run_block,
            self._nets.run_windows,
            options,
            self._settings.max_stream_s * SAMPLE_RATE,
        )
        return self._streams.start(chunk.stream, chunk.options.stream_token, options, diarization)

    def _find(self, chunk: Chunk) -> Stream:
        if chunk.parameters:
            names = ", ".join(chunk.parameters)
            raise InvalidOption("E_OPTION_UNKNOWN", f"got {names}, expected such options with a START only")
        return self._streams.find(chunk.stream, chunk.options.stream_token)

    async def _advance(self, stream: Stream, chunk: Chunk, job: Job | None) -> pb_utils.InferenceResponse:
        """Take the chunk's samples; then the live view, or the result of an END."""
        diarization = stream.diarization
        known = chunk.options.num_known(len(chunk.samples), diarization.num_samples)
        await diarization.take(chunk.samples[known:])
        if job is None:
            update = stream.unconfirmed.complete(await diarization.look(), chunk.options.first_sample)
            return live_response(update, self._profile.embedding.dim)
        stopwatch = Stopwatch()
        job.seconds = stopwatch.seconds
        with stopwatch("total"):
            job.result = await job.wait_for(diarization.finish(stopwatch, self._pool))
        result = replace(job.result, timings=stopwatch.seconds if stream.timings else None)
        self._streams.finish(chunk.stream, stream, result)
        return recording_response(result)


@dataclass(frozen=True)
class Chunk:
    """A request to a stream. options, parameters: those of every request, and the others.

    begins: a START; one that goes on where the stream stands (``first_sample``) does not begin.
    """

    stream: StreamId
    begins: bool
    ends: bool
    samples: Samples
    options: ChunkOptions
    parameters: dict[str, object]


def read_chunk(request: pb_utils.InferenceRequest, max_chunk_s: int) -> Chunk:
    """What a request says, with a copy of its samples: Triton may have the request back.

    Raises InvalidAudio for both AUDIO and PCM or for too much of it, InvalidOption for a bad token.
    """
    parameters: dict[str, object] = request_parameters(request)
    options = ChunkOptions.take_from(parameters)
    starts = bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
    return Chunk(
        stream=request.correlation_id(),
        begins=starts and not options.first_sample,
        ends=bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END),
        samples=recording_samples(request, max_chunk_s).copy() if request.inputs() else NOTHING,
        options=options,
        parameters=parameters,
    )


def send(sender: Any, response: pb_utils.InferenceResponse) -> None:
    """Send the only answer to a request."""
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def live_response(update: LiveUpdate, dim: int) -> pb_utils.InferenceResponse:
    """The live view as RESULT; RTTM and EMBEDDINGS come with an END, till then they are empty."""
    texts = {RESULT: update.to_json(), RTTM: b""}
    return pb_utils.InferenceResponse(
        [
            *(pb_utils.Tensor(name, np.array([text], dtype=np.object_)) for name, text in texts.items()),
            pb_utils.Tensor(EMBEDDINGS, np.zeros((0, dim), np.float32)),
        ]
    )
