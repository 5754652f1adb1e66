"""The scripts that measure the published figures; results are in RESULTS.md."""
