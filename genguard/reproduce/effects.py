"""Finds what webhooks did to the fields of a loop, call by call."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from genguard.objects.fields import ABSENT
from genguard.reproduce.fields import differences, is_renewed
from genguard.reproduce.loop import Effect, Field
from genguard.reproduce.recorded import RecordedWrite, asked, place_of, request_of, user_of


def effects_of(writes: Sequence[RecordedWrite]) -> Iterator[Effect]:
    """Yield what webhooks did between the intent and the last mutate, call by call."""
    calls: dict[tuple[str, str, Field], list[tuple[Any, Any]]] = {}
    unasked: set[tuple[str, str, Field]] = set()
    users: dict[tuple[str, str], dict[str, bool]] = {}
    for write in writes:
        plural, below, *_ = place_of(request_of(write[0]))
        target = f"{plural}/{below}".rstrip("/"), str(request_of(write[0])["operation"])
        mutating = [line for line in write if line["phase"] != "outcome"]
        shown = [request_of(line).get("object") or {} for line in mutating]
        asks_nothing = not any(differences(*asked(write)))
        known = users.setdefault(target, {})
        known.setdefault(user_of(write), False)
        for before, after in pairwise(shown):
            for field, old, new in differences(before, after):
                key = (*target, field)
                calls.setdefault(key, []).append((old, new))
                unasked |= {key} if asks_nothing else set()
                known[user_of(write)] = True
    for key, seen in calls.items():
        resource, operation, field = key
        by_user = users[resource, operation]
        whose = tuple(user for user, changed in by_user.items() if changed)
        does, values = _does(seen, is_unasked=key in unasked)
        everybody = len(whose) == len(by_user)
        yield Effect(resource, operation, field, does, values, () if everybody else whose)


def _does(seen: Sequence[tuple[Any, Any]], *, is_unasked: bool) -> tuple[str, tuple[Any, ...]]:
    """Return what a webhook does, and with which values.

    is_unasked  it changed the field in a write that asks for nothing: who sets always the same
                value would have set it before
    """
    values = [new for _, new in seen if new is not ABSENT]
    if not values:
        return "remove", ()
    texts = [("" if old is ABSENT else old, new) for old, new in seen]
    if all(isinstance(old, str) and isinstance(new, str) for old, new in texts):
        added = {new.removeprefix(old) for old, new in texts}
        if (
            len(added) == 1
            and any(old for old, _ in texts)
            and all(n.startswith(o) for o, n in texts)
        ):
            return "append", tuple(added)
    if is_renewed(values) or (is_unasked and isinstance(values[0], str | int)):
        return "renew", tuple(values[:1])
    return "set", tuple(one for at, one in enumerate(values) if one not in values[:at])
