"""status.conditions by type, each with its own observedGeneration respected."""

from typing import Any, Final

import msgspec

from webhook.objects.fields import ABSENT
from webhook.status.observed import as_generation
from webhook.status.reason import Blocks, Reason, short_word
from webhook.status.subject import Subject, UnreadableError

TRUE: Final = "True"
FALSE: Final = "False"


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One entry of status.conditions, as far as rules ask for it."""

    type: str
    status: Any
    """True, False or Unknown for most; some controllers write other words."""
    reason: str
    observed: Any
    """Its own observedGeneration as it stands, or ABSENT."""
    since: Any
    """lastTransitionTime as it stands, or ABSENT."""

    @property
    def path(self) -> str:
        """`status.conditions[Ready]`."""
        return f"status.conditions[{self.type}]"

    def stale(self, generation: int | None) -> bool:
        """Whether it speaks of another generation; one that tells none speaks of now."""
        if self.observed is ABSENT or generation is None or not self.observed:
            return False
        return as_generation(self.observed) != generation

    def blocking(self, want: str, blocks: Blocks = Blocks.BOTH) -> Reason:
        """`status.conditions[Ready] False, want True: ContainersNotReady`."""
        note = short_word(self.reason) if self.reason else ""
        return Reason(self.path, short_word(self.status), want, note, blocks)

    def stale_reason(self, generation: int | None, blocks: Blocks = Blocks.BOTH) -> Reason:
        """`status.conditions[Ready].observedGeneration 2, want 3`."""
        observed = as_generation(self.observed)
        have = short_word(self.observed) if observed is None else observed
        return Reason(f"{self.path}.observedGeneration", have, str(generation), "", blocks)


class Conditions:
    """The first condition of each type."""

    __slots__ = ("_items",)

    def __init__(self, items: dict[str, dict[str, Any]]) -> None:
        self._items: Final = items

    def get(self, name: str) -> Condition | None:
        """The first of a type, or None."""
        item = self._items.get(name)
        if item is None:
            return None
        reason = item.get("reason")
        return Condition(
            name,
            item.get("status", ABSENT),
            reason if isinstance(reason, str) else "",
            item.get("observedGeneration", ABSENT),
            item.get("lastTransitionTime", ABSENT),
        )

    def true(self, name: str) -> Condition | None:
        """The first of a type if it is True, of whatever generation, or None."""
        item = self._items.get(name)
        return self.get(name) if item is not None and item.get("status") == TRUE else None


def read_conditions(subject: Subject) -> Conditions:
    """Index status.conditions; raises UnreadableError when the list is malformed."""
    items = subject.status.get("conditions")
    found: dict[str, dict[str, Any]] = {}
    if items is None:
        return Conditions(found)
    if not isinstance(items, list):
        raise UnreadableError("status.conditions", items, "a list")
    for item in items:
        if not isinstance(item, dict):
            path = f"status.conditions[{items.index(item)}]"
            raise UnreadableError(path, item, "an object")
        name = item.get("type")
        if not isinstance(name, str):
            path = f"status.conditions[{items.index(item)}].type"
            raise UnreadableError(path, item.get("type", ABSENT), "a text")
        if name not in found:
            found[name] = item
    return Conditions(found)


def must_be_true(
    conditions: Conditions, name: str, generation: int | None, blocks: Blocks = Blocks.BOTH
) -> Reason | None:
    """Why a condition that has to be True is not, or speaks of another generation; else None."""
    found = conditions.get(name)
    if found is None:
        return Reason(f"status.conditions[{name}]", ABSENT, TRUE, "", blocks)
    if found.status != TRUE:
        return found.blocking(TRUE, blocks)
    return found.stale_reason(generation, blocks) if found.stale(generation) else None
