"""Patches as the API server applies them: JSON Patch and strategic merge patch."""

import copy
from collections.abc import Mapping
from typing import Any, Final

import jsonpatch

from genguard.testing.refusals import bad_request, invalid
from genguard.testing.shapes import Shape

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_DIRECTIVE: Final = "$patch"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"


def json_patch(document: Mapping[str, Any], operations: Any) -> Any:
    """Return a document after an RFC 6902 patch.

    Raise RequestRefusedError where it does not apply.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON Patch is a list of operations")
    try:
        return jsonpatch.JsonPatch(operations).apply(dict(copy.deepcopy(document)))
    except jsonpatch.JsonPatchTestFailed as error:
        raise invalid("the server rejected our request due to an error in our request") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        raise invalid(f"the JSON Patch does not apply: {error}") from error


def strategic_merge_patch(shape: Shape, document: Any, patch: Any) -> Any:
    """Return a document after a strategic merge patch; `document` stays as it is.

    Lists are joined by the keys of their kind. Known are the directives `$patch` (`replace`,
    `delete`, `merge`), `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys`.
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type: {directive!r}; known are replace, delete, merge")
    merged = dict(document) if isinstance(document, dict) else {}
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(shape, merged, name, value)
    for name, value in patch.items():
        if isinstance(value, list):
            _apply_directive(shape, merged, name, value)
    return merged


def _merge_field(shape: Shape, merged: dict[str, Any], name: str, value: Any) -> None:
    """Set or remove one field, in place."""
    if value is None:
        merged.pop(name, None)
        return
    inner = shape.field(name)
    if inner is None:
        merged[name] = copy.deepcopy(value)
    elif isinstance(value, list):
        merged[name] = _merge_list(inner, merged.get(name), value)
    else:
        merged[name] = strategic_merge_patch(inner, merged.get(name), value)


def _apply_directive(shape: Shape, merged: dict[str, Any], name: str, value: list[Any]) -> None:
    """Remove values of a list, or put its items into an order, in place."""
    if name.startswith(_DELETE_VALUES):
        field = name.removeprefix(_DELETE_VALUES)
        merged[field] = [item for item in merged.get(field, ()) if item not in value]
    elif name.startswith(_ORDER):
        field = name.removeprefix(_ORDER)
        if isinstance(merged.get(field), list):
            merged[field] = _ordered(shape.field(field), merged[field], value)


def _merge_list(shape: Shape, current: Any, patch: list[Any]) -> list[Any]:
    key = shape.patch_key
    items = list(current) if isinstance(current, list) else []
    if {_DIRECTIVE: "replace"} in patch:
        return [copy.deepcopy(entry) for entry in patch if entry != {_DIRECTIVE: "replace"}]
    if not key:
        return copy.deepcopy(patch)
    if key == ".":
        return items + [entry for entry in patch if entry not in items]
    for entry in patch:
        if not isinstance(entry, dict) or key not in entry:
            raise bad_request(f"map: {entry!r} does not contain declared merge key: {key}")
        indexes = [at for at, item in enumerate(items) if item.get(key) == entry[key]]
        if entry.get(_DIRECTIVE) == "delete":
            items = [item for at, item in enumerate(items) if at not in indexes]
        elif indexes:
            items[indexes[0]] = strategic_merge_patch(shape.item(), items[indexes[0]], entry)
        else:
            items.append(strategic_merge_patch(shape.item(), {}, entry))
    return items


def _ordered(shape: Shape | None, items: list[Any], order: list[Any]) -> list[Any]:
    """Put the items that the patch names into its order, in the places that they have together."""
    key = "" if shape is None else shape.patch_key

    def name(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    wanted = [name(item) for item in order]
    named = sorted(
        (item for item in items if name(item) in wanted), key=lambda item: wanted.index(name(item))
    )
    rest = iter(named)
    return [next(rest) if name(item) in wanted else item for item in items]
