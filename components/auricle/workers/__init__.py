"""The worker processes: encode, prefill and decode, align, diarize, translate."""
