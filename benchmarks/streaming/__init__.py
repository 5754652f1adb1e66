"""The figures of streaming recognition. `python -m benchmarks.streaming`."""
