"""The align worker: when each word of a final segment was said."""
