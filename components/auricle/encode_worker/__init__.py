"""Encode worker: window features in, embeddings in a NIXL-registered slab out."""
