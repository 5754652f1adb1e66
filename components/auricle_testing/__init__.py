"""Shared by tests and benchmarks: a graph as processes, random checkpoints, and recordings.

Nothing in `auricle` imports it, and neither the wheel nor the images have it.
"""
