"""Whether a controller has seen the generation of now: observedGeneration against generation."""

from typing import Any, Final

from webhook.objects.fields import ABSENT
from webhook.status.reason import Reason, short_word
from webhook.status.subject import Subject

_LONGEST_DIGITS: Final = 19


def as_generation(value: Any) -> int | None:
    """A generation, also as Argo Rollouts writes it, a string of digits; None when it is none."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) <= _LONGEST_DIGITS:
        return int(value) if value.isascii() else None
    return None


def observed_gap(subject: Subject, *, always_written: bool) -> Reason | None:
    """Why status does not speak of the generation of now, or None when it does.

    Absent blocks where the kind's controller always writes one; null does everywhere, for a field
    that is there and empty was never filled in, or cleared. Behind is every lower number, 0 and
    Flux's -1 too. Ahead is a status that came with a restored object, or a forged one: it speaks of
    another intent just as much.
    """
    observed, generation = subject.observed, subject.generation
    if observed == generation and type(observed) is int:
        return None
    if generation is None:
        return None
    if observed is ABSENT and not always_written:
        return None
    if observed is ABSENT or observed is None:
        return Reason("status.observedGeneration", observed, str(generation))
    number = as_generation(observed)
    if number == generation:
        return None
    have = short_word(observed) if number is None else number
    note = "ahead of the generation" if number is not None and number > generation else ""
    return Reason("status.observedGeneration", have, str(generation), note)


def highest_observed(subject: Subject) -> int | None:
    """What status says to have observed; where only conditions say it, the highest of theirs."""
    own = as_generation(subject.observed)
    if own is not None:
        return own
    conditions = subject.status.get("conditions")
    if not isinstance(conditions, list):
        return None
    found = [
        number
        for item in conditions
        if isinstance(item, dict)
        and (number := as_generation(item.get("observedGeneration"))) is not None
    ]
    return max(found, default=None)
