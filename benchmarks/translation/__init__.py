"""Live translation on the real graph: latency, quality and cost."""
