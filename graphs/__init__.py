"""What services are made of; see docs/one_chunk.md for what flows along the links."""
