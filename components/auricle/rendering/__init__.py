"""`auricle render`: from a graph and its configuration to Kubernetes manifests."""
