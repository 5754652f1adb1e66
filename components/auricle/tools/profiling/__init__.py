"""`auricle profile`: measures the capacity of one worker of each pool, for the planner."""
