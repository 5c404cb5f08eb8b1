"""Names of the tensors and models that cross the wire, defined once."""

SPAN = "SPAN"
LOGITS = "LOGITS"
EMBEDDINGS = "EMBEDDINGS"
SPEECH = "SPEECH"
PURE_EMBEDDINGS = "PURE_EMBEDDINGS"
LANES = "LANES"
DEADLINE = "deadline_unix_ms"  # request parameter of a block: past it, it is not run
PROBE_ID = "diar-probe"  # request id, or file_id, of what the supervisor sends to see whether a model works
BLOCK_OUTPUTS = (LOGITS, EMBEDDINGS, SPEECH, PURE_EMBEDDINGS, LANES)
PURE_OUTPUTS = (LOGITS, SPEECH, PURE_EMBEDDINGS, LANES)  # enough where every window has pure embeddings

AUDIO = "AUDIO"
PCM = "PCM"
RESULT = "RESULT"
RTTM = "RTTM"
RECORDING_OUTPUTS = (RESULT, RTTM, EMBEDDINGS)
EVENT = "EVENT"
FILE = "FILE"

DIARIZE = "diarize"
DIARIZE_EVENTS = "diarize_events"
DIARIZE_STREAM = "diarize_stream"
DIARIZE_FILE = "diarize_file"


def nn_model(index: int) -> str:
    """Name of the model that runs the networks on GPU (or CPU share) ``index``.

    >>> nn_model(0)
    'diar_nn_g0'
    """
    return f"diar_nn_g{index}"
