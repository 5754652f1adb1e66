"""How windows land: read over NIXL into a slab, verified and pinned, before a model sees them."""
