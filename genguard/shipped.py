"""Reads the tables and texts that stand beside the modules, as YAML or JSON."""

from functools import cache
from importlib import resources
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def shipped(package: str, name: str, kind: type[T]) -> T:
    """Return what a file of a package holds; it is read once and never changed.

    Raises msgspec.ValidationError where it is no such table.
    """
    of: Any = kind
    found: T = read_shipped(package, name, of)
    return found


@cache
def read_shipped(package: str, name: str, kind: Any) -> Any:
    """Return the same untyped; who writes a file clears this cache."""
    text = resources.files(package).joinpath(name).read_bytes()
    decode = msgspec.json.decode if name.endswith(".json") else msgspec.yaml.decode
    return decode(text, type=kind)
