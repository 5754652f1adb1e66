"""Observers of a session's audio and events: latency metrics, transcript bus, transcript log."""
