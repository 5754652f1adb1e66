"""Health checks of a deployment, from what its processes report."""
