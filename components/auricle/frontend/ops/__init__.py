"""The operations page and the diagnosis of the deployment."""
