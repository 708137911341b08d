"""What external probes say of an object: the conditions TrafficReady and ApplicationQualified.

Reads    both conditions of any kind, each with its own observedGeneration.
Result   True or False; None where nobody has said so of this generation. A probe that says False
         makes a Green object Yellow. It never changes Ready or Settled: that is what differs from
         a readiness gate, which the kubelet includes in the Ready of a Pod.
Source   Improve .status, "Augment .status using external controllers, probes", and Health in
         "Standardizing Fields".
"""

from typing import Final, NamedTuple

from genguard.status.checked_object import FALSE, TRUE, CheckedObject, Condition, standard_places
from genguard.status.view import Blocks, Reason, remark, short_word

TRAFFIC_READY: Final = "TrafficReady"
"""A probe of the network: traffic reaches the object through its Service."""
APPLICATION_QUALIFIED: Final = "ApplicationQualified"
"""A test of the whole application, from end to end."""
_TYPES: Final = frozenset({TRAFFIC_READY, APPLICATION_QUALIFIED})


class Probes(NamedTuple):
    """The answers of external probes about one object."""

    traffic_ready: bool | None = None
    application_qualified: bool | None = None
    reasons: tuple[Reason, ...] = ()
    """Remarks about what is not True; none of them blocks."""

    @property
    def failing(self) -> bool:
        """Whether a probe says False of this generation."""
        return self.traffic_ready is False or self.application_qualified is False


_UNPROBED: Final = Probes()


def read_probes(obj: CheckedObject) -> Probes:
    """Return what probes say. A malformed condition says nothing; of two the first counts."""
    found: dict[str, Condition] = {}
    for path, part in standard_places(obj):
        items = part.get("conditions")
        for item in items if isinstance(items, list) else ():
            name = item.get("type") if isinstance(item, dict) else None
            if isinstance(name, str) and name in _TYPES and name not in found:
                found[name] = Condition.of(name, item, f"{path}.conditions")
    if not found:
        return _UNPROBED
    reasons: list[Reason] = []
    traffic, qualified = (
        _answer(found.get(name), obj.generation, reasons)
        for name in (TRAFFIC_READY, APPLICATION_QUALIFIED)
    )
    return Probes(traffic, qualified, tuple(reasons))


def combine(answers: list[bool | None]) -> bool | None:
    """Combine by AND the answers of those that say anything; None when nobody does."""
    said = [one for one in answers if one is not None]
    return all(said) if said else None


def _answer(found: Condition | None, generation: int | None, reasons: list[Reason]) -> bool | None:
    if found is None:
        return None
    if found.stale(generation):
        reasons.append(found.stale_reason(generation, Blocks.NOTHING))
        return None
    if found.status == TRUE:
        return True
    note = short_word(found.reason) if found.reason else "an external probe says so"
    reasons.append(remark(found.path, have=short_word(found.status), note=note))
    return False if found.status == FALSE else None
