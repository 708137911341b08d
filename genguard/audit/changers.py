"""Who changed an audited write: known from its annotations, so nobody is suspected of it.

A webhook is named in a finding if its patch wrote one of the fields that the finding is about.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from genguard.admission.review import AdmissionRequest
from genguard.audit.event import Call
from genguard.detection.finding import Confidence
from genguard.detection.suspects import Suspects
from genguard.detection.write import NOBODY, Called
from genguard.objects.pointer import from_pointer

_MOST_OPERATIONS: Final = 20


class Changers(Called):
    """The webhooks that changed one write, with their calls."""

    calls: tuple[Call, ...] = ()

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Called:
        """Return the webhooks of these calls, each of which changed the object."""
        if not calls:
            return NOBODY
        first, again = (
            tuple(dict.fromkeys(one.name for one in calls if (one.round > 0) is is_again))
            for is_again in (False, True)
        )
        found = cls(first or again, again)
        found.calls = tuple(calls)
        return found


class NamedSuspects(Suspects):
    """The webhooks that the audit log names: each of them is known to have changed the object."""

    def __init__(self, given: Suspects | None = None) -> None:
        """`given`: the policies of the cluster; they leave no trace in an audit log."""
        policies, conditions = (given.policies, given.conditions) if given else ((), None)
        super().__init__(policies=policies, conditions=conditions)
        self.changers: Called = NOBODY
        """Of the event that is being judged."""

    def called_in(self, request: AdmissionRequest) -> Called:
        """Return the webhooks that changed the write."""
        del request
        return self.changers

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """Yield the named webhooks."""
        for name in sorted(names):
            yield name, Confidence.CERTAIN

    def calls_about(
        self, called: Called, pointers: Sequence[str], *, again: bool
    ) -> tuple[Called, dict[str, object]]:
        """Return the webhooks whose patches wrote these fields, and their calls as evidence."""
        if not isinstance(called, Changers):
            return called, {}
        calls = _that_wrote(called.calls, pointers, again=again)
        names = tuple(dict.fromkeys(one.name for one in calls))
        shown = [_described(one.name, one.round, one.position, _shown(one)) for one in calls]
        return Called(names, names), {"calls": shown}


def _that_wrote(calls: Sequence[Call], pointers: Iterable[str], *, again: bool) -> Sequence[Call]:
    """Return the calls whose patches wrote some of these fields; all where that is unclear."""
    calls = [one for one in calls if (one.round > 0) is again] or calls
    paths = [_path(one) for one in pointers]
    # Items of a list are named by index, and patches before this one may have moved them.
    for shown in (tuple, _without_indexes):
        wanted = [shown(one) for one in paths]
        found = [one for one in calls if any(_meet(shown(path), wanted) for path in _written(one))]
        if found:
            return found
    return calls


def _written(call: Call) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a patch writes, and those that it moves away."""
    for one in call.operations or ():
        if one.op != "test":
            yield _path(one.path)
        if one.op == "move":
            yield _path(one.source)


def _meet(written: tuple[str, ...], paths: Iterable[tuple[str, ...]]) -> bool:
    """Whether any of the paths is the written one, within it or around it."""
    return any(all(a == b for a, b in zip(written, path, strict=False)) for path in paths)


def _without_indexes(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("-" if token.isdigit() else token for token in path)


def _path(pointer: str) -> tuple[str, ...]:
    try:
        return from_pointer(pointer)
    except ValueError:
        return ("",)  # the place of nothing


def _shown(call: Call) -> tuple[tuple[str, str], ...]:
    return tuple((one.op, one.path) for one in (call.operations or ())[:_MOST_OPERATIONS])


@lru_cache(maxsize=4096)
def _described(
    webhook: str, round_: int, position: int, shown: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return a call as evidence: operations and paths, never their values."""
    # A loop repeats the same call: all share one dict, which is never changed.
    operations = [{"op": op, "path": path} for op, path in shown]
    return {"webhook": webhook, "round": round_, "index": position, "operations": operations}
