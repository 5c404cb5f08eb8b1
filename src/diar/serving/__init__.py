"""The models that Triton loads; the only code that imports Triton."""
