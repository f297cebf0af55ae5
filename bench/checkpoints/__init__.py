"""Checkpoints of runs: written so that a kill at any moment loses nothing, read without pickle."""
