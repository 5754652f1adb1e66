"""Measures /health and live sessions of a frontend under many uploads."""
