"""The objects of a genguard in a cluster: for kustomize, and for `genguard install` to read."""

from importlib import resources


def read(path: str) -> bytes:
    """A file by its path in this folder: `tls/kustomization.yaml`; raises FileNotFoundError."""
    return resources.files("manifests").joinpath(path).read_bytes()
