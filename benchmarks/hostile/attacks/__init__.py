"""Named attacks: functions of a target and a scale (0 to 1] that return whether the graph held."""
