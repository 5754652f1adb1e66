"""Small checkpoints of random weights, in the formats in which models are published."""
