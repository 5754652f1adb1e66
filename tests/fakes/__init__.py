"""Fakes for unit tests, one concept per file; `auricle_testing` has the ones for benchmarks."""
