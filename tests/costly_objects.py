"""Objects that a tenant fills so that the conditions of tests/cases/conditions/costly.yaml cost."""

from typing import Any

_SPECS: dict[str, dict[str, Any]] = {
    "numbers": {"list": list(range(8_000))},
    "words": {"list": ["ab"] * 5_000, "text": "x" * 20_000},
    "text": {"list": [1] * 500, "text": "a" * 50_000},
}


def costly_object(over: str) -> dict[str, Any]:
    """As it is stored and as it is written."""
    return {"metadata": {"name": "filled", "generation": 1}, "spec": _SPECS[over]}
