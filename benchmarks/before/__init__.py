"""Compares this tree with an earlier commit in one run."""
