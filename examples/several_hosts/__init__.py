"""A deployment on several hosts; docs/several_hosts.md describes it."""
