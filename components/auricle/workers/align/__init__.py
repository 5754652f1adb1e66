"""The align worker: the times of each word of a final segment."""
