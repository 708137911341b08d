"""Who owns which field: managedFields, and server-side apply.

A manager owns the fields that it wrote last. An update takes the fields that it changes from
everybody else. An apply is refused where it would change a field of another manager, unless it is
forced, and removes the fields that its manager applied before and nobody else owns.

Source: sigs.k8s.io/structured-merge-diff (merge/update.go), which the API server uses.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.testing.refusals import RequestRefusedError
from genguard.testing.shapes import ListType, Shape

Step = tuple[str, str]
"""`f` and the name of a field, `k` and the keys of an item as JSON, `v` and a value as JSON."""
Path = tuple[Step, ...]
Leaves = dict[Path, Any]

_PRESENT: Final = object()
"""Stands for an item of a list that has keys; its fields are leaves of their own."""
_NOT_OWNED: Final = frozenset(
    (("f", "metadata"), ("f", name))
    for name in (
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
        "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
        "generateName",
    )
)  # fmt: skip
_OWN_TYPE: Final = ((("f", "apiVersion"),), (("f", "kind"),))


class Manager(NamedTuple):
    """One entry of managedFields."""

    name: str
    operation: str
    api_version: str
    subresource: str


class Conflict(NamedTuple):
    """A field that an apply would take from another manager."""

    manager: Manager
    path: Path


Owned = dict[Manager, frozenset[Path]]


def find_leaves(shape: Shape, value: Any) -> Leaves:
    """Return the values of an object that can be owned one by one."""
    found: Leaves = {}
    _collect(shape, value, (), found)
    return {
        path: leaf
        for path, leaf in found.items()
        if path[:2] not in _NOT_OWNED and path not in _OWN_TYPE
    }


def _collect(shape: Shape, value: Any, path: Path, found: Leaves) -> None:
    if isinstance(value, dict) and value and not shape.is_atomic:
        for name, child in value.items():
            inner = shape.field(name)
            if inner is not None:
                _collect(inner, child, (*path, ("f", name)), found)
        return
    if isinstance(value, list) and value and shape.list_type is not ListType.ATOMIC:
        for item in value:
            step = step_of(shape, item)
            if shape.list_type is ListType.MAP:
                found[*path, step] = _PRESENT
                _collect(shape.item(), item, (*path, step), found)
            else:
                found[*path, step] = item
        return
    found[path] = value


def step_of(shape: Shape, item: Any) -> Step:
    """Return the step to an item of a list, by its keys or by its value."""
    if shape.list_type is ListType.MAP and isinstance(item, dict):
        keys = {key: item[key] for key in shape.keys if key in item}
        return "k", json.dumps(keys, sort_keys=True, separators=(",", ":"))
    return "v", json.dumps(item, sort_keys=True, separators=(",", ":"))


def after_update(owned: Owned, writer: Manager, before: Leaves, after: Leaves) -> Owned:
    """Return who owns what after an update: the writer takes what it changes."""
    changed = frozenset(
        path for path, value in after.items() if path not in before or before[path] != value
    )
    gone = before.keys() - after.keys()
    found = {manager: paths - changed - gone for manager, paths in owned.items()}
    if changed:
        found[writer] = found.get(writer, frozenset()) | changed
    return {manager: paths for manager, paths in found.items() if paths}


def find_conflicts(owned: Owned, writer: Manager, live: Leaves, applied: Leaves) -> list[Conflict]:
    """Return the fields of others that an apply would change."""
    return [
        Conflict(manager, path)
        for manager, paths in owned.items()
        if manager != writer
        for path in sorted(paths)
        if path in applied and path in live and applied[path] != live[path]
    ]


def apply(
    shape: Shape, live: Mapping[str, Any], applied: Mapping[str, Any], owned: Owned, writer: Manager
) -> tuple[dict[str, Any], Owned]:
    """Return an object after an apply, and who owns what then."""
    wanted = find_leaves(shape, applied)
    merged = _merge(shape, live, applied)
    others = frozenset().union(*(paths for owner, paths in owned.items() if owner != writer))
    dropped = owned.get(writer, frozenset()) - wanted.keys() - others
    kept_below = {path[:end] for path in (*others, *wanted) for end in range(1, len(path))}
    for path in sorted(dropped, key=len):  # an item before its keys, by which it is found
        if path not in kept_below:
            _remove(shape, merged, path)
    before = find_leaves(shape, live)
    taken = frozenset(p for p, value in wanted.items() if p not in before or before[p] != value)
    after = find_leaves(shape, merged).keys()
    found = {owner: (paths - taken) & after for owner, paths in owned.items() if owner != writer}
    found[writer] = frozenset(wanted)
    return merged, {owner: paths for owner, paths in found.items() if paths}


def _merge(shape: Shape, live: Any, applied: Any) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not shape.is_atomic:
        merged = dict(live)
        for name, value in applied.items():
            inner = shape.field(name)
            merged[name] = value if inner is None else _merge(inner, live.get(name), value)
        return merged
    if (
        isinstance(applied, list)
        and isinstance(live, list)
        and shape.list_type is not ListType.ATOMIC
    ):
        return _merge_list(shape, live, applied)
    return copy.deepcopy(applied)


def _merge_list(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    wanted = {step_of(shape, item): item for item in applied}
    merged = []
    for item in live:
        step = step_of(shape, item)
        merged.append(_merge(shape.item(), item, wanted.pop(step)) if step in wanted else item)
    return merged + [copy.deepcopy(item) for item in wanted.values()]


def _remove(shape: Shape, value: Any, path: Path) -> None:
    """Remove what a path names, in place, and what is empty without it."""
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        name = step[1]
        inner = shape.field(name)
        if name not in value or inner is None:
            return
        if not rest:
            del value[name]
            return
        value[name] = copy.copy(value[name])
        _remove(inner, value[name], rest)
        if value[name] in ({}, []):
            del value[name]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if step_of(shape, item) == step:
                if not rest:
                    del value[index]
                else:
                    value[index] = copy.copy(item)
                    _remove(shape.item(), value[index], rest)
                return


def encode(owned: Owned, times: Mapping[Manager, str]) -> list[dict[str, Any]]:
    """Return metadata.managedFields."""
    return [
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            **({"time": times[manager]} if manager in times else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": _fields(paths),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, paths in owned.items()
    ]


def _fields(paths: Iterable[Path]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(paths):
        inner = found
        for kind, name in path:
            inner = inner.setdefault(f"{kind}:{name}", {})
        if path[-1][0] == "k":
            inner["."] = {}
    return found


def refuse_conflicts(found: Sequence[Conflict]) -> RequestRefusedError:
    """Return 409: an apply would change fields of other managers, and is not forced."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{conflict.manager.name}"',
            "field": _text_of(conflict.path),
        }
        for conflict in found
    ]
    named = ", ".join(f'"{conflict.manager.name}": {_text_of(conflict.path)}' for conflict in found)
    conflicts = "conflict" if len(found) == 1 else "conflicts"
    message = f"Apply failed with {len(found)} {conflicts}: {conflicts} with {named}"
    return RequestRefusedError(409, "Conflict", message, {"causes": causes})


def _text_of(path: Path) -> str:
    """Return a path as the API server writes it in a conflict: `.spec.ports[port=80].name`."""
    return "".join(f".{name}" if kind == "f" else f"[{_keys(name)}]" for kind, name in path)


def _keys(text: str) -> str:
    found = json.loads(text)
    if isinstance(found, dict):
        return ",".join(f"{key}={json.dumps(value)}" for key, value in found.items())
    return f"={text}"
