"""Files that the command line is given."""

import gzip
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.reviews import clobbered
from webhook.cli import main

__all__ = ["DEFINITION", "clobbered", "lines", "recorded", "replay", "serve", "write_lines"]

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


def recorded(phase: str, review: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"time": f"2026-01-01T00:00:{second:02d}Z", "phase": phase, "review": review}


def write_lines(path: Path, *rows: Any, end: str = "") -> Path:
    """One document a line; a .gz is compressed. `end` follows as it is."""
    content = ("".join(json.dumps(row) + "\n" for row in rows) + end).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def replay(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run `genguard replay`."""
    return CliRunner().invoke(main, ["replay", *map(str, arguments)], input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    """What `-o json` printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def serve(*arguments: str | Path) -> Result:
    """Run `genguard serve`, only with flags that are refused before anything is served."""
    result = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert isinstance(result.exception, SystemExit), result.exception
    return result
