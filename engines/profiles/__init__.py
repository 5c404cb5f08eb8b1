"""Profiles: one TOML file for each pair of networks and its geometry."""
