"""Compares this tree with an earlier commit in one run."""

# The reference for the bars of figures named `…_ratio_before`. Its servers do the same work as
# today's, and every clone with the project's history contains it.
BASE = "5557afc"
