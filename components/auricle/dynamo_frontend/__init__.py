"""Dynamo's own frontend as a component of a graph: unmodified, in a child process."""
