"""What the server does under more load than it carries, simulated."""
