"""The live audio path through frontend and processor, in one process, for measurements."""
