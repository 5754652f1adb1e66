"""Who starts and drains workers when the planner says so."""
