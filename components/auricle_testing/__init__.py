"""What tests and benchmarks share: a graph as processes, checkpoints of random weights, recordings.

Nothing in `auricle` imports it, and neither the wheel nor the images have it.
"""
