"""Starts tritonserver, watches it and ends it; knows nothing of audio."""
