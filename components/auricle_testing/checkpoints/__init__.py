"""Small checkpoints with random weights, in the formats of published models."""
