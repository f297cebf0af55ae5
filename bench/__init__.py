"""The harness: everything that times, stores and schedules."""

__version__ = "0.1.0"
