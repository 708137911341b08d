"""Builds the images that the tests run in a cluster beside genguard's own."""

from pathlib import Path

from tests.kind.commands import run

_FOLDER = Path(__file__).parent / "images"


def build(name: str) -> str:
    """Build the image of a folder of `images`; its name."""
    image = f"genguard-test/{name}:1"
    run("docker", "build", "--tag", image, str(_FOLDER / name))
    return image
