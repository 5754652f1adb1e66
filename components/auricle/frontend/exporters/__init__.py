"""What leaves the frontend beside the answers: transcripts on NATS, logs, timings."""
