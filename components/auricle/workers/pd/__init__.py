"""The PD worker: reads embeddings over NIXL, then an engine (engine.py) prefills and decodes."""
