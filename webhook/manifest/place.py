"""Places inside a document: JSON Pointers to add at, and kustomize's field paths.

Source  RFC 6902 section 4.1; kustomize api/filters/replacement: `webhooks.*.clientConfig.caBundle`,
        and `data.[ca.crt]` for a name that holds a dot
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from webhook.objects.pointer import from_pointer

_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def add(document: Any, pointer: str, value: Any) -> None:
    """Put a value at a pointer; `-` is the end of a list. Raises LookupError or ValueError."""
    *parents, last = from_pointer(pointer)
    for token in parents:
        document = document[int(token)] if isinstance(document, list) else document[token]
    if not isinstance(document, list):
        document[last] = value
    elif last == "-":
        document.append(value)
    else:
        document.insert(int(last), value)


def read_field(document: Any, path: str) -> Any:
    """The value at a field path; raises KeyError where there is none."""
    for name in _names(path):
        document = document[name]
    return document


def write_fields(document: Any, path: str, value: Any) -> None:
    """Set a field, made where it is absent; `*` is every item of a list."""
    *parents, last = _names(path)
    for parent in _parents([document], parents):
        parent[last] = value


def _parents(found: list[Any], names: list[str]) -> Iterator[Any]:
    for name in names:
        if name == "*":
            found = [item for one in found for item in one]
        else:
            found = [one.setdefault(name, {}) for one in found]
    yield from found


def _names(path: str) -> list[str]:
    return [bracketed or plain for bracketed, plain in _PART.findall(path)]
