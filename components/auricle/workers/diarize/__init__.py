"""The diarize worker: who speaks in a final segment."""
