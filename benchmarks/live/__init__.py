"""The way of live audio through frontend and processor, in one process, for measurements."""
