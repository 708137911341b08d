"""What a controller says by the standard of "Improve .status", beside the condition Ready.

Reads    the fields ready, isReady, isSettled, settled and health, and the conditions Settled,
         Converged, Health and Healthy, of `status`, `status.meta` and `metadata.status`.
Result   what each of them says, and a reason for each that does not say yes.
Relies   on status.observedGeneration, which evaluate() checks first: fields have no generation of
         their own. A field that several sections have counts in the first of them.
Source   Improve .status, "Standardizing Conditions", "Standardizing Fields" and "Location". `ready`
         is the name of the field under "Location", `isReady` the one under "Standardizing Fields";
         `settled` is by analogy. Converged is named as what Health may be derived from, Healthy is
         what many controllers call Health.

External probes write the conditions TrafficReady and ApplicationQualified, each with its own
observedGeneration. A probe that says False makes a Green object Yellow. It never changes Ready or
Settled: that is what differs from a readiness gate, which the kubelet includes in the Ready of a
Pod. Source: "Augment .status using external controllers, probes".
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from genguard.generation.flipped_conditions import REASON as FLIPPED
from genguard.objects.fields import ABSENT, get, items
from genguard.objects.observed import generation_number
from genguard.status.checked_object import CheckedObject, Condition, Conditions, Sections
from genguard.status.view import Blocks, Health, Reason, remark, short_word, type_word

_READY: Final = {"ready": False, "isReady": True}
"""Whether the name belongs to the standard alone: a value of a wrong type blocks then. Many kinds
have a number or a text like 2/3 in `ready`."""
_SETTLED: Final = {"settled": False, "isSettled": True}
_SETTLED_TYPES: Final = ("Settled", "Converged")
_HEALTH: Final = ("health", "Health")
_HEALTH_TYPES: Final = ("Health", "Healthy")
_COLOURS: Final = {"red": Health.RED, "yellow": Health.YELLOW, "green": Health.GREEN}
_PER_CENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)\s?%", re.ASCII)


class Flags(NamedTuple):
    """What boolean fields, or conditions that are read alike, say of one question."""

    said: bool = False
    """Somebody says yes or no."""
    reasons: tuple[Reason, ...] = ()
    """One for each that does not say yes."""
    remarks: tuple[Reason, ...] = ()
    """One for each value that belongs to somebody else."""

    @property
    def holds(self) -> bool:
        """Somebody says yes, and nobody anything else."""
        return self.said and not self.reasons


def current_sections(obj: CheckedObject, sections: Sections) -> tuple[Sections, list[Reason]]:
    """Return the sections that are about this generation, and a reason for each other one.

    `status` is always among the former: evaluate() compares its observedGeneration before.
    """
    kept, reasons = [], []
    for path, part in sections:
        observed = ABSENT if path == "status" else part.get("observedGeneration", ABSENT)
        number = generation_number(observed)
        if observed is ABSENT or obj.generation is None or number == obj.generation:
            kept.append((path, part))
        else:
            have = number if number is not None else short_word(observed)
            reasons.append(Reason(f"{path}.observedGeneration", have, str(obj.generation)))
    return kept, reasons


def read_ready(sections: Sections) -> Flags:
    """Read the fields `ready` and `isReady`."""
    return _read_flags(sections, _READY, Blocks.BOTH)


def read_settled(obj: CheckedObject, conditions: Conditions, sections: Sections) -> Flags:
    """Read the fields `settled` and `isSettled` and the conditions Settled and Converged."""
    flags = _read_flags(sections, _SETTLED, Blocks.SETTLED)
    said, reasons = flags.said, list(flags.reasons)
    for found in filter(None, map(conditions.get, _SETTLED_TYPES)):
        if found.status == "False" and found.reason == FLIPPED:
            # Written by --flip-status, beside Ready=Unknown. A controller that only knows Ready
            # never takes it back.
            continue
        said = True
        if found.stale(obj.generation):
            reasons.append(found.stale_reason(obj.generation, Blocks.SETTLED))
        elif found.status != "True":
            reasons.append(found.blocking("True", Blocks.SETTLED))
    return Flags(said, tuple(reasons), flags.remarks)


def _read_flags(sections: Sections, names: dict[str, bool], blocks: Blocks) -> Flags:
    said = False
    reasons: list[Reason] = []
    remarks: list[Reason] = []
    for path, value, is_strict in _fields(sections, names):
        word = value.capitalize() if isinstance(value, str) else value
        if word is True or word == "True":
            said = True
        elif word is False or word is None or word in ("False", "Unknown"):
            said = True
            reasons.append(Reason(path, word, "true", "", blocks))
        elif is_strict:
            said = True
            reasons.append(Reason(path, type_word(value), "a boolean", "", blocks))
        else:
            remarks.append(remark(path, have=type_word(value), note="not a boolean, so not read"))
    return Flags(said, tuple(reasons), tuple(remarks))


def _fields(sections: Sections, names: dict[str, bool]) -> Iterator[tuple[str, Any, bool]]:
    """Yield path, value and strictness of each name, from the first section that has it."""
    for name, is_strict in names.items():
        for path, part in sections:
            if name in part:
                yield f"{path}.{name}", part[name], is_strict
                break


def read_health(
    obj: CheckedObject, conditions: Conditions, sections: Sections, red: Blocks
) -> tuple[Health | None, list[Reason]]:
    """Read the field `health` and the conditions Health and Healthy.

    Return the worst that they say, None where nobody says anything that can be read; and a reason
    for each that does not say Green.

    red  what an object cannot be while it says Red; every other answer is a remark

    Health=False may mean degraded as well as unavailable, so it is Yellow: whether the object works
    is what Ready says. Null and Unknown are Yellow: nobody has said Green yet. An old condition
    does not count.
    """
    said: list[Health] = []
    reasons: list[Reason] = []
    found: list[tuple[str, Any, Health | None, str]] = []
    for path, value, _ in _fields(sections, dict.fromkeys(_HEALTH, False)):
        note = "not known yet" if value is None else ""
        found.append((path, value, _colour(value), note))
    for condition in filter(None, map(conditions.get, _HEALTH_TYPES)):
        if condition.stale(obj.generation):
            reasons.append(condition.stale_reason(obj.generation, Blocks.NOTHING))
        else:
            good = Health.GREEN if condition.status == "True" else _colour(condition.status)
            found.append((condition.path, condition.status, good or Health.YELLOW, condition.note))
    for path, value, colour, note in found:
        said += [colour] if colour else []
        if colour is Health.RED and red:
            reasons.append(Reason(path, short_word(value), Health.GREEN, note, red))
        elif colour is not Health.GREEN:
            why = note if colour else "not Red, Yellow or Green, so not read"
            reasons.append(remark(path, have=short_word(value), note=why))
    return next((colour for colour in reversed(Health) if colour in said), None), reasons


def _colour(value: Any) -> Health | None:
    if value is None:
        return Health.YELLOW
    return _COLOURS.get(value.lower()) if isinstance(value, str) else None


def read_progress(sections: Sections) -> tuple[str, float] | None:
    """Return path and share of a `progress` such as `45%`; None for anything else.

    A number may be a share or a percentage: 1 is both the beginning and the end. So it is not read.
    """
    for path, value, _ in _fields(sections, {"progress": False}):
        found = _PER_CENT.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            return path, min(1.0, round(float(found[1]) / 100, 2))
    return None


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
    """Return what probes say. A malformed condition says nothing; the first of two counts."""
    found: dict[str, Condition] = {}
    for path, part in obj.sections:
        for item in items(part.get("conditions")):
            name = get(item, "type")
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
    said = [answer for answer in answers if answer is not None]
    return all(said) if said else None


def _answer(found: Condition | None, generation: int | None, reasons: list[Reason]) -> bool | None:
    if found is None:
        return None
    if found.stale(generation):
        reasons.append(found.stale_reason(generation, Blocks.NOTHING))
        return None
    if found.status == "True":
        return True
    note = found.note or "an external probe says so"
    reasons.append(remark(found.path, have=short_word(found.status), note=note))
    return False if found.status == "False" else None
