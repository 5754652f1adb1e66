"""Recorded files: decoded and split in processes of their own, transcribed in parallel."""
