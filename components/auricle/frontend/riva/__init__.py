"""NVIDIA Riva's speech recognition, over gRPC."""
