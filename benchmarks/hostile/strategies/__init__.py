"""Hypothesis strategies of hostile inputs, a module for each wire format."""
