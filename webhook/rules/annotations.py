"""What an answer tells the audit log: the generation, and what each rule did."""

from functools import lru_cache
from typing import Final, NamedTuple

from webhook.generation.prediction import Cause, Prediction
from webhook.objects.pointer import Path
from webhook.patch.edit import Edit

GENERATION: Final = "generation"
"""The key for what is predicted; the others are the names of rules."""
TOLD: Final = 20
"""How many edits are named; the patch itself stands beside the annotation in the audit log."""


class Mend(NamedTuple):
    """What one rule did to the object, or in audit-only mode would have done."""

    rule: str
    edits: tuple[Edit, ...]


def annotations(
    prediction: Prediction, mends: tuple[Mend, ...], *, audit_only: bool
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
    for mend in mends:
        places = " ".join([f"{_place(edit.path)}={edit.told}" for edit in mend.edits[:TOLD]])
        if len(mend.edits) > TOLD:
            places += f" and {len(mend.edits) - TOLD} more"
        found[mend.rule] = f"would set {places}" if audit_only else f"set {places}"
    return found


@lru_cache(256)
def _place(path: Path) -> str:
    return ".".join(map(str, path))
