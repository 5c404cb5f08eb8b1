"""Speaker diarization: the core that server, client and tools share."""
