"""Client of the diarization server: ``DiarizationClient``, ``BlockClient``, the command ``diarize``."""

from diar.result import Diarization, Speaker
from diar.turns import Turn
from diar_client.blocks import BlockClient
from diar_client.client import DiarizationClient
from diar_client.decode import AudioWarning, decode_file
from diar_client.failures import ServerRefused, ServerUnreachable
from diar_client.retry import Patience

__all__ = [
    "AudioWarning",
    "BlockClient",
    "Diarization",
    "DiarizationClient",
    "Patience",
    "ServerRefused",
    "ServerUnreachable",
    "Speaker",
    "Turn",
    "decode_file",
]
