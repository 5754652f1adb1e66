"""The connection of a session to the processor that owns it, with retries and failover."""
