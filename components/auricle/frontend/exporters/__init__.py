"""Exporters of the frontend: transcripts on NATS, logs, timings."""
