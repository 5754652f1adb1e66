"""Generates paced load: for `auricle profile`, and for the benchmarks."""
