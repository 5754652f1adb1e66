"""A script per published number; results are in RESULTS.md."""
