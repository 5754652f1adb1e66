"""The control plane alone: real frontend and processor, workers that only take time."""
