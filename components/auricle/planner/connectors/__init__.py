"""Connectors, through which the planner has workers started and drained."""
