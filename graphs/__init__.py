"""The components of each service; docs/one_chunk.md describes the data on their links."""
