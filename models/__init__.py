"""Published checkpoints, and how they are trained."""
