"""Common parts of all processes: status, draining, logs, metrics, traces, HTTP server."""
