"""Which plan to build for which GPU: gpus.toml."""
