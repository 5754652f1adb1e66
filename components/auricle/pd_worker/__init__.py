"""The PD worker: reads embeddings over NIXL, then prefills and decodes in vLLM."""
