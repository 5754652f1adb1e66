"""Hostile input over loopback during a session that it must not affect."""
