"""Embeddings of audio windows: slab, leases, transfer over NIXL."""
