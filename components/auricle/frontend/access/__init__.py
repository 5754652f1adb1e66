"""Who may use this frontend, and how much."""
