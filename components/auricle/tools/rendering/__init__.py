"""`auricle render`: writes Kubernetes manifests for a graph and its configuration."""
