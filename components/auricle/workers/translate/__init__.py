"""The translate worker: the engine of a PD worker, with a text model that translates."""
