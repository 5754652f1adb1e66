"""`auricle profile`: how much one worker of each pool carries, for the planner."""
