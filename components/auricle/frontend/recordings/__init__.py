"""Recorded files: decoded and split in separate processes, transcribed in parallel."""
