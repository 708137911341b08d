"""The audit annotations of an answer: the generation, and what each rule did."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from genguard.generation.prediction import Cause, Prediction
from genguard.objects.fields import Path
from genguard.patch.operations import Edit

GENERATION: Final = "generation"
"""The key for what is predicted; the others are the names of rules."""
MOST_SHOWN: Final = 20
"""How many edits are named; the patch itself is beside the annotation in the audit log."""


class Repair(NamedTuple):
    """What a rule did to the object, or in audit-only mode would have done."""

    rule: str
    edits: tuple[Edit, ...]


def annotations(
    prediction: Prediction, repairs: Sequence[Repair], *, audit_only: bool
) -> dict[str, str]:
    """Audit annotations by key: numbers and field paths, never contents.

    They depend on the write alone: the API server refuses a second value for a key.
    """
    found = {}
    if prediction.cause is Cause.UNKNOWN_STATUS_SUBRESOURCE:
        found[GENERATION] = "unknown: whether status is a subresource is not known"
    elif prediction.moves:
        value = "moves" if prediction.generation is None else str(prediction.generation)
        found[GENERATION] = f"{value} {prediction.cause}"
    for repair in repairs:
        shown = repair.edits[:MOST_SHOWN]
        fields = " ".join([f"{_dotted(edit.path)}={edit.shown}" for edit in shown])
        if len(repair.edits) > MOST_SHOWN:
            fields += f" and {len(repair.edits) - MOST_SHOWN} more"
        found[repair.rule] = f"would set {fields}" if audit_only else f"set {fields}"
    return found


@lru_cache(256)
def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
