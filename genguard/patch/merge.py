"""Applies merge patches (RFC 7386), and makes them."""

import copy
from collections.abc import Mapping
from typing import Any

from genguard.objects.equality import same_json
from genguard.objects.fields import ABSENT


def merge_patch(document: Any, patch: Any) -> Any:
    """Return a document after an RFC 7386 patch; `document` stays as it is."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def merge_patch_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the RFC 7386 patch that makes one document of another."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key, ABSENT)
        if isinstance(before, dict) and isinstance(value, dict):
            below = merge_patch_between(before, value)
            if below:
                patch[key] = below
        elif before is ABSENT or not same_json(before, value):
            patch[key] = value
    return patch
