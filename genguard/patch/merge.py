"""Applies a merge patch (RFC 7386)."""

import copy
from typing import Any


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
