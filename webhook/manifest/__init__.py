"""What is put into a cluster, rendered from the files that kustomize reads."""
