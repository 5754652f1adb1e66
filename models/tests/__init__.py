"""Tests of how the bundled models are trained."""
