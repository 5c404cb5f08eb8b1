"""Client of the diarization server."""
