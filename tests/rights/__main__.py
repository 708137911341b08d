"""Writes tests/rights/granted again: `python -m tests.rights`, and read the difference."""

import tempfile
from pathlib import Path

from tests.controlplane.granting import granted
from tests.controlplane.plane import ControlPlane
from tests.rights.listing import GRANTED, OVERLAYS, completed, listing, rendered


def main() -> None:
    """Asks a real API server."""
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        manifests = completed(Path(folder))
        for overlay in OVERLAYS:
            with granted(plane, rendered(plane, manifests, overlay)):
                text, before = listing(plane), ""
                while text != before:  # the API server takes a moment to notice
                    text, before = listing(plane), text
            (GRANTED / f"{overlay}.txt").write_text(text)


if __name__ == "__main__":
    main()
