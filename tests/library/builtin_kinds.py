"""Writes genguard/testing/builtin_kinds.json: `python -m tests.library.builtin_kinds`.

And genguard/objects/atomic.json, with what of that is owned as a whole. Fields, keys of lists
and atomic values come from the OpenAPI document in the Go module of Kubernetes that
tests/controlplane builds; what a PUT creates, and what it needs, from the strategies there.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genguard.generation.table import load_rows
from genguard.testing.shapes import BuiltIn, ListType, load_builtin_kinds, parse_code
from tests.controlplane.build import MODULE

TABLE = Path(__file__).parents[2] / "genguard" / "testing" / "builtin_kinds.json"
OWNED = TABLE.parents[1] / "objects" / "atomic.json"
_MODULES = ("k8s.io/kubernetes", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
_RETURNS = r"\) {}\(\) bool \{{\s*return {}\s*\}}"
_RETURNS_DELETED = re.compile(r"ReturnDeletedObject:\s*true")
_PARTS = re.compile(r"(?:.*\.)?([a-z0-9]+)\.(v[a-z0-9]+)\.(\w+)$")


def sources() -> list[Path]:
    """The folders of the modules of Kubernetes, in the version of tests/controlplane/go.mod."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", *_MODULES]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=True)
    return [Path(line) for line in done.stdout.splitlines()]


def make_table(folders: list[Path]) -> dict[str, Any]:
    """The table, from the source of Kubernetes."""
    document = json.loads((folders[0] / "api" / "openapi-spec" / "swagger.json").read_text())
    definitions = document["definitions"]
    served = {
        (row.group, version, row.kind)
        for row in load_rows()
        if row.persisted
        for version in row.versions
    }
    roots = {}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            if (kind["group"], kind["version"], kind["kind"]) in served:
                group = kind["group"] or "core"
                roots[f"{group}/{kind['version']}/{kind['kind']}"] = name
    types: dict[str, dict[str, str]] = {}
    waiting = [*roots.values(), "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
    while waiting:
        name = waiting.pop()
        if _short(name) in types:
            continue
        properties = definitions[name].get("properties", {})
        types[_short(name)] = {
            field: _code(each, definitions) for field, each in properties.items()
        }
        waiting += [one for each in properties.values() for one in _references(each, definitions)]
    return {
        "roots": {key: _short(name) for key, name in sorted(roots.items())},
        "types": dict(sorted(types.items())),
        "createsOnUpdate": sorted(_resources(folders, "AllowCreateOnUpdate", "true")),
        "needsResourceVersion": sorted(_resources(folders, "AllowUnconditionalUpdate", "false")),
        "returnsDeleted": sorted(_returning(folders[0])),
    }


def _short(name: str) -> str:
    """`io.k8s.api.apps.v1.Deployment` → `apps/v1.Deployment`."""
    found = _PARTS.fullmatch(name)
    return f"{found[1]}/{found[2]}.{found[3]}" if found else name


def _target(schema: dict[str, Any]) -> str:
    return schema.get("$ref", "").removeprefix("#/definitions/")


def _references(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    name = _target(schema)
    if name and "properties" in definitions[name]:
        yield name
    for inside in ("items", "additionalProperties"):
        if isinstance(schema.get(inside), dict):
            yield from _references(schema[inside], definitions)


def _code(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A field's code, as genguard.testing.shapes.parse_code explains it."""
    name = _target(schema)
    if name:
        struct = definitions[name]
        if "properties" not in struct:
            return ""
        types = [one.get("x-kubernetes-map-type") for one in (schema, struct)]
        return "!" * ("atomic" in types) + _short(name)
    if schema.get("type") == "array":
        return _list_prefix(schema) + _code(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        atomic = "!" * (schema.get("x-kubernetes-map-type") == "atomic")
        return f"{atomic}{{}}{_code(schema['additionalProperties'], definitions)}"
    return ""


def _list_prefix(schema: dict[str, Any]) -> str:
    kind = schema.get("x-kubernetes-list-type", "atomic")
    keys = ",".join(schema.get("x-kubernetes-list-map-keys", ()))
    merged = {"map": keys, "set": "="}.get(kind, "")
    if "merge" in schema.get("x-kubernetes-patch-strategy", ""):
        return f"[{merged}|{schema.get('x-kubernetes-patch-merge-key', '.')}]"
    return f"[{merged}]"


def _resources(folders: list[Path], method: str, answer: str) -> Iterator[str]:
    """The resources whose strategy has a method with this answer, as kubectl writes them."""
    pattern = re.compile(_RETURNS.format(method, answer))
    for folder in folders:
        for path in (folder / "pkg" / "registry").rglob("*strategy.go"):
            if pattern.search(path.read_text()):
                where = str(path.relative_to(folder))
                yield from (row.name for row in load_rows() if where in row.source)


def _returning(folder: Path) -> Iterator[str]:
    """The resources whose DELETE answers with the object, as kubectl writes them."""
    yield "customresourcedefinitions.apiextensions.k8s.io"
    for path in (folder / "pkg" / "registry").rglob("*.go"):
        if _RETURNS_DELETED.search(path.read_text()):
            strategies = f"{path.relative_to(folder).parent.parent}/"
            yield from (row.name for row in load_rows() if row.source.startswith(strategies))


def atomic_table() -> dict[str, dict[str, str]]:
    """The other table."""
    known = load_builtin_kinds()
    types = {
        name: {field: _owner(parse_code(code)) for field, code in fields.items()}
        for name, fields in known.types.items()
    }
    return {"roots": known.roots, **types}


def _owner(shape: BuiltIn) -> str:
    is_list = shape.element is not None and not shape.is_map
    if shape.is_atomic or (is_list and shape.list_type is not ListType.MAP):
        return "!"
    return shape.type_name if shape.element is None else f"*{_owner(shape.element)}"


def main() -> None:
    """Write the tables."""
    TABLE.write_text(json.dumps(make_table(sources()), separators=(",", ":")) + "\n")
    load_builtin_kinds.cache_clear()
    OWNED.write_text(json.dumps(atomic_table(), indent=0) + "\n")


if __name__ == "__main__":
    main()
