"""What auricle is compared with: transformers and stock vLLM, fed all audio at every chunk."""
