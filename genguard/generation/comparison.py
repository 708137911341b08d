"""Whether an update changed anything that its kind counts.

Equal bytes answer without decoding: the API server writes object and oldObject with the same
encoder, so most reviews never reach a comparison of values.
"""

from typing import Final

import msgspec

from genguard.admission.review import GroupVersionKind, ReviewedObject
from genguard.generation.strategy import Equality, Strategy
from genguard.objects.equality import same_raw
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta
from genguard.objects.typed_equality import field_code, same_raw_typed

_METADATA_CODES: Final = {"annotations": "{}value", "labels": "{}value"}


def counted_change(
    strategy: Strategy, kind: GroupVersionKind, new: ReviewedObject, old: ReviewedObject
) -> bool:
    """Tell whether this update moves generation, as the main strategy compares."""
    if strategy.equality is Equality.UNTYPED:
        return _untyped_change(strategy.excluded, new.fields, old.fields)
    for pointer in strategy.compare:
        first, _, rest = pointer.removeprefix("/").partition("/")
        if rest:
            a, b = _metadata_field(new.metadata, rest), _metadata_field(old.metadata, rest)
            code = _METADATA_CODES[rest]
        else:
            a, b = new.get(first), old.get(first)
            code = None
        if a == b:
            continue
        code = field_code(kind.group, kind.version, kind.kind, first) if code is None else code
        if not same_raw_typed(code, a, b, nil_is_empty=strategy.equality is Equality.SEMANTIC):
            return True
    return False


def _untyped_change(excluded: frozenset[str], new: Fields, old: Fields) -> bool:
    keys = new.keys() | old.keys()
    return any(
        not same_raw(new.get(key), old.get(key)) for key in sorted(keys) if key not in excluded
    )


def _metadata_field(metadata: ObjectMeta, name: str) -> msgspec.Raw | None:
    raw = metadata.annotations if name == "annotations" else metadata.labels
    return None if isinstance(raw, msgspec.UnsetType) else raw
