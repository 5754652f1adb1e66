"""Benchmarks of annotations: words, confidence, speakers, turns."""
