"""Commands that look before a deployment is tried: at a checkpoint, at a configuration."""
