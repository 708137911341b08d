"""Writes genguard/detection/since.json: `python -m tools.versions.since`, 12 downloads of 20 MB.

A place is all definitions of OpenAPI documents, of any version and release, that a path leads to.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genguard.generation.table import known_versions, load_rows
from tools.versions.published import Release, find_release

Place = tuple[frozenset[str], ...]


def types_since(releases: Sequence[Release]) -> dict[str, dict[str, list[str]]]:
    """Return by type [since, type] of fields that the first has not, or that lead to such."""
    kinds = {row.name: tuple(one.definitions(row) for one in releases) for row in load_rows()}
    places, waiting = {(frozenset({"kinds"}),): kinds}, [*kinds.values()]
    while waiting:
        if (place := waiting.pop()) not in places:
            places[place] = _below(place, releases)
            waiting += places[place].values()
    born = {one: next((at for at, names in enumerate(one) if names), 0) for one in places}
    kept: dict[Place, str] = {}

    def told(one: Place) -> dict[str, list[str]]:
        fields = sorted(places[one].items())
        new = {key: releases[born[to]].minor for key, to in fields if born[to] > born[one]}
        both = {key: [new.get(key, ""), kept.get(to, "")] for key, to in fields}
        return {key: row for key, row in both.items() if any(row)}

    while more := [one for one in places if one not in kept and told(one)]:
        kept |= {one: f"{max([*filter(None, one)][-1])} {born[one]}" for one in more}
    assert len({*kept.values()}) == len(kept), "two places have the same name"
    return {name: told(one) for one, name in sorted(kept.items(), key=lambda each: each[1])}


def _below(place: Place, releases: Sequence[Release]) -> dict[str, Place]:
    """Return where fields lead; `*` is the one of a list or a map, `*` before its type."""
    found: dict[str, list[set[str]]] = {}
    for at, name in ((at, name) for at, names in enumerate(place) for name in names):
        fields = releases[at].schemas.get(name, {}).get("properties", {})
        below = {"*": name[1:]} if name[:1] == "*" else {k: _type(v) for k, v in fields.items()}
        for key, to in below.items():
            found.setdefault(key, [set() for _ in releases])[at].add(to)
    return {key: tuple(map(frozenset, each)) for key, each in found.items()}


def _type(schema: Mapping[str, Any]) -> str:
    of = schema.get("items", schema.get("additionalProperties"))
    return f"*{_type(of)}" if isinstance(of, dict) else schema.get("$ref", "").rpartition("/")[2]


if __name__ == "__main__":
    minors = range(26, int(known_versions()[1].partition(".")[2]) + 1)
    types = types_since([find_release(f"1.{minor}.0", also=()) for minor in minors])
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in types.items())
    Path("genguard/detection/since.json").write_text(f"{{\n{lines}\n}}\n")
