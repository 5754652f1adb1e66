"""The diarize worker: the speakers of a final segment."""
