"""Files that the command line is given."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.reviews import make_review

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "subresources": {}}],
    },
}


def clobbered(**arguments: Any) -> dict[str, Any]:
    """A status write that lost what was stored."""
    return make_review(
        new={"status": {}}, old={"status": {"observedGeneration": 3}}, subresource="status",
        **arguments,
    )  # fmt: skip


def recorded(phase: str, review: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"time": f"2026-01-01T00:00:{second:02d}Z", "phase": phase, "review": review}


def write_lines(path: Path, *rows: Any, end: str = "") -> Path:
    """One document a line; a .gz is compressed. `end` follows as it is."""
    content = ("".join(json.dumps(row) + "\n" for row in rows) + end).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
