"""Leader election between planners, with a lease in the discovery backend."""
