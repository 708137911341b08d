"""The Kubernetes API at the edge."""
