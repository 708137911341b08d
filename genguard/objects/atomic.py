"""Which lists and maps are owned as a whole: who writes one item of such a list writes all of them.

Built-in kinds have a table, written by tests/library/builtin_kinds.py: the type of a kind, and of a
type the fields that lead to such a value. A field has `!` where it is one, else its type, with `*`
for each item or key. A list of a custom resource is one, unless its schema says otherwise
(apiextensions-apiserver pkg/apis/apiextensions/v1/types_jsonschema.go:XListType).
"""

from genguard.objects.fields import from_pointer, to_pointer
from genguard.shipped import shipped


def owned_pointer(group: str, version: str, kind: str, pointer: str) -> str:
    """Return the JSON Pointer of what has one owner: the field, or what it is in; not of status."""
    path = from_pointer(pointer)
    known = shipped("genguard.objects", "atomic.json", dict[str, dict[str, str]])
    code = known["roots"].get(f"{group or 'core'}/{version}/{kind}")
    for at, step in enumerate(path if path[:1] != ("status",) else ()):
        if code == "!" or (code is None and step.isdigit()):
            return to_pointer(path[:at])
        if code is not None:
            code = code[1:] if code[:1] == "*" else known.get(code, {}).get(step, "")
    return pointer
