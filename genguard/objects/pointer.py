"""RFC 6901 JSON Pointers: how a place inside an object is named on the wire."""

from collections.abc import Iterable, Sequence

Token = str | int
Path = tuple[Token, ...]


def to_pointer(path: Iterable[Token]) -> str:
    """`("metadata", "a/b", 0)` → `/metadata/a~1b/0` (RFC 6901 section 3)."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in path)


def from_pointer(pointer: str) -> tuple[str, ...]:
    """`/metadata/a~1b/0` → `("metadata", "a/b", "0")`; raises ValueError on a bad pointer."""
    if pointer == "":
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"a JSON Pointer starts with '/': {pointer!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def to_field_path(path: Sequence[Token]) -> str:
    """`("status", "conditions", 0, "type")` → `status.conditions[0].type`, as people read it."""
    text = ""
    for token in path:
        if isinstance(token, int):
            text += f"[{token}]"
        else:
            text += f".{token}" if text else token
    return text
