"""Clients that send hostile inputs to a running graph, and return the outcome."""
