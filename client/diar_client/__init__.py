"""Client of the diarization server: ``DiarizationClient``, its asyncio twin, the command ``diarize``."""

from diar.result import Diarization, Speaker
from diar.turns import Turn
from diar_client.aio import AsyncDiarizationClient
from diar_client.block_client import BlockClient
from diar_client.blocks import AsyncBlockRun, BlockDone, BlockRun
from diar_client.client import DiarizationClient
from diar_client.decode import AudioWarning, decode_file
from diar_client.failures import ServerRefused, ServerUnreachable
from diar_client.report import to_html, to_png
from diar_client.retry import Patience
from diar_client.stream import AsyncStream, LiveUpdate, Stream

__all__ = [
    "AsyncBlockRun",
    "AsyncDiarizationClient",
    "AsyncStream",
    "AudioWarning",
    "BlockClient",
    "BlockDone",
    "BlockRun",
    "Diarization",
    "DiarizationClient",
    "LiveUpdate",
    "Patience",
    "ServerRefused",
    "ServerUnreachable",
    "Speaker",
    "Stream",
    "Turn",
    "decode_file",
    "to_html",
    "to_png",
]
