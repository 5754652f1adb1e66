"""The attacks of the campaign by subject, each known to have succeeded once."""
