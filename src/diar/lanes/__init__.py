"""Lanes: the ways in which a network is run."""
