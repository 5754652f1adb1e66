"""What an operator sees of the whole deployment, live: read-only, and nothing when nobody looks."""
