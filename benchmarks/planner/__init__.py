"""The planner against static sizing, a tuned HPA and a clairvoyant, on replayed arrivals."""
