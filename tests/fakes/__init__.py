"""Fakes for unit tests, one idea a file; those that benchmarks use too are in `auricle_testing`."""
