"""The manifests of genguard, for kustomize and for `genguard install`."""

from importlib import resources


def read(path: str) -> bytes:
    """Return a file by its path in this folder, as `tls/kustomization.yaml`.

    Raises FileNotFoundError.
    """
    return resources.files("manifests").joinpath(path).read_bytes()
