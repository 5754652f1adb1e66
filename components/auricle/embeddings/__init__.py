"""Storage and transfer of embeddings: slots, headers, leases, NIXL."""
