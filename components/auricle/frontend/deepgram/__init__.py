"""Deepgram's protocols: `/v1/listen`, live and for recordings, and `/v2/listen` for turns."""
