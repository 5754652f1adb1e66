"""What all processes share: status, draining, logs, metrics, traces, an embedded HTTP server."""
