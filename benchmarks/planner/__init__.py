"""Compares the planner with static sizing, a tuned HPA and a clairvoyant bound."""
