"""Hostile input over loopback, beside a witness whose session must not notice it."""
