"""The baselines: transformers and stock vLLM, which decode all audio again at every chunk."""
