"""This tree beside an earlier commit, in one run."""

# What the bars of figures named `…_ratio_before` are relative to: its servers do the same work as
# today's, and every clone has it that has the project's history.
BASE = "5557afc"
