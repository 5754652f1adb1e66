"""Live translation on the real graph: how late, how good, what it costs."""
