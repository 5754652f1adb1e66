"""Embeddings in memory and on the move: slots, headers, leases, NIXL."""
