"""Client of the diarization server: ``DiarizationClient``, ``BlockClient``, the command ``diarize``."""

from diar.result import Diarization, Speaker
from diar.turns import Turn
from diar_client.aio import AsyncDiarizationClient
from diar_client.block_client import BlockClient
from diar_client.blocks import AsyncBlockRun, BlockDone, BlockRun
from diar_client.client import DiarizationClient
from diar_client.decode import AudioWarning, decode_file
from diar_client.failures import ServerRefused, ServerUnreachable
from diar_client.retry import Patience

__all__ = [
    "AsyncBlockRun",
    "AsyncDiarizationClient",
    "AudioWarning",
    "BlockClient",
    "BlockDone",
    "BlockRun",
    "Diarization",
    "DiarizationClient",
    "Patience",
    "ServerRefused",
    "ServerUnreachable",
    "Speaker",
    "Turn",
    "decode_file",
]
