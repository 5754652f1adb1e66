"""The encode worker: turns window features into embeddings in a NIXL-registered slab."""
