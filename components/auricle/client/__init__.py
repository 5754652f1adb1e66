"""What `auricle transcribe` is made of: a streaming client and its display."""
