"""An engine of transformers' modules: for machines without vLLM, and what vLLM is held against."""
