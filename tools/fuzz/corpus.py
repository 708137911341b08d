"""The seeds of each target: small files whose names say what they are; regressions too."""

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def seeds(target: str) -> dict[str, bytes]:
    """File name → contents."""
    found = {path.name: path.read_bytes() for path in sorted((CORPUS / target).iterdir())}
    assert found, f"no seed of {target}"
    return found
