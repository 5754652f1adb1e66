"""Tests of the arithmetic behind published figures, and of the server by benchmark inputs."""
