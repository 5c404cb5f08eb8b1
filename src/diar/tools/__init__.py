"""The commands behind scripts/."""
