"""Whether words of a client's context appear that were not said, and what those said gain."""
