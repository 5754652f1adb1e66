"""Measures the control plane: real frontend and processor, simulated workers."""
