"""The server under more load than it carries, simulated."""
