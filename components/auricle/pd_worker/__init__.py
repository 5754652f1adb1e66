"""PD worker: embeddings by NIXL, then prefill and decode in vLLM."""
