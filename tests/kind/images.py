"""Builds the images that the tests run in a cluster beside genguard's own."""

from pathlib import Path

from tests.kind.commands import run

_FOLDER = Path(__file__).parent / "images"


def build(name: str, context: Path | None = None) -> str:
    """Build the image of a folder of `images`, by default of what is beside its Dockerfile."""
    image, folder = f"genguard-test/{name}:1", _FOLDER / name
    file = str(folder / "Dockerfile")
    run("docker", "build", "--tag", image, "--file", file, str(context or folder))
    return image
