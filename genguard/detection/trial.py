"""Tries a step that ends a loop on the last writes of its object, before the step is shown.

Reads   a finding, and the writes of its objects that History keeps
Result  in how many of the writes that do harm the step would have ended it, and what else it would
        have changed. Of a webhook, writes do harm in which webhooks changed a field of the finding;
        of a policy, which is not seen at work, those on which it acted; of a writer, those that set
        such a field
Relies  on the next writes being like the last ones. Nothing is written for it
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, Literal

import msgspec

from genguard.detection.changes import Change
from genguard.detection.finding import Actor, Finding, Trial
from genguard.detection.history import ObjectHistory, history_name
from genguard.detection.sample import field_names, is_at_or_below
from genguard.detection.write import ObjectKey, Write
from genguard.objects.observed import restorations

Scope = Literal["status", "object", "kind", "again"]
"""Which calls a webhook need not get any more; the words are in fix.yaml."""
NOT_KEPT: Final = Trial(not_tried="none of the last writes is remembered field by field")
_KEPT_BY_LEADER: Final = Trial(not_tried="the replica that leads remembers the last writes: ask it")
_MAY_BE_OF_OTHERS: Final = Trial(not_tried="a policy may have set the field")
_MOST_OBJECTS: Final = 2_000
"""Whose writes are searched for what else a step would change."""


class Trials:
    """The steps of one finding, tried on the last writes."""

    def __init__(self, found: Finding, histories: Mapping[str, ObjectHistory] | None) -> None:
        """Take the histories of all objects, as History.snapshot returns them.

        histories  None where another replica judges, and so has them
        """
        self._untried: Final = _KEPT_BY_LEADER if histories is None else NOT_KEPT
        histories = histories or {}
        examples = (found.object,) if found.objects is None else found.objects.examples
        self._names: Final = {
            history_name(ObjectKey(*msgspec.structs.astuple(one))) for one in examples
        }
        own = [histories[name].writes for name in self._names if name in histories]
        self._writes: Final[Sequence[Write]] = [*chain.from_iterable(own)]
        self._histories: Final = histories
        self._found: Final = found
        self._paths: Final = frozenset(found.paths)

    def not_called(self, scope: Scope, *, policy: str = "") -> Trial:
        """Try to call a webhook for less, or the policy that is named."""
        if policy:
            harmed = [w for w in self._writes if policy in {one.name for one in w.policies}]
            ended = [w for w in harmed if self._leaves_out(scope, w)]
            return self._trial(ended, harmed)
        harmed = [w for w in self._writes if self._is_harmed(_by_webhooks(w))]
        if scope == "again":
            return self._trial([w for w in harmed if not self._is_changed_anew(w)], harmed)
        ended = [w for w in harmed if self._leaves_out(scope, w)]
        return self._trial(ended, harmed, self._also(scope))

    def left_alone(self, actors: Collection[Actor]) -> Trial:
        """Try to have writers leave the fields of the finding to others."""
        harmed, ended = [], []
        for write in self._writes:
            sent = _sent(write)
            if self._is_harmed(sent) and any(_is_by(write, one) for one in actors):
                harmed.append(write)
                rest = [one for one in sent if not (one.holds_time or self._is_in_paths(one))]
                if not any(self._is_undone(one, write) for one in rest):
                    ended.append(write)
        if any(one.policies for one in harmed):
            return _MAY_BE_OF_OTHERS
        return self._trial(ended, harmed)

    def restored(self) -> Trial:
        """Try to restore each observedGeneration that is cleared, as genguard does enforcing."""
        harmed = [w for w in self._writes if self._is_harmed(_by_webhooks(w))]
        if not harmed:
            named = self._found.actors
            set_by = [w for w in self._writes if any(_is_by(w, one) for one in named)]
            harmed = [w for w in set_by if self._is_harmed(_sent(w))]
        return self._trial([w for w in harmed if _is_cleared(w)], harmed)

    def _trial(
        self, ended: Sequence[Write], harmed: Sequence[Write], also: tuple[str, ...] = ()
    ) -> Trial:
        return Trial(len(ended), len(harmed), also) if harmed else self._untried

    def _is_harmed(self, changes: Iterable[Change]) -> bool:
        return any(map(self._is_in_paths, changes))

    def _is_in_paths(self, change: Change) -> bool:
        """Whether a change is of a field of the finding, or of what holds one and is empty now."""
        at = change.pointer
        return is_at_or_below(at, self._paths) or any(x.startswith(f"{at}/") for x in self._paths)

    def _leaves_out(self, scope: Scope, write: Write) -> bool:
        """Whether the webhook or policy is not called for a write any more: see fix.py."""
        if scope == "status":
            return write.subresource == "status"
        return scope == "kind" or write.object.name == self._found.subject.name

    def _is_changed_anew(self, write: Write) -> bool:
        """Whether the first call of the webhook changes what its last call has made, too."""
        first = [*(write.content.webhook or ()), *(write.metadata.webhook or ())]
        return self._is_harmed(one for one in first if one.before is not None)

    def _is_undone(self, change: Change, write: Write) -> bool:
        """Whether somebody else writes the same field."""
        return any(
            one.key == change.key
            for other in self._writes
            if other.requester.writer != write.requester.writer
            for one in _sent(other)
        )

    def _also(self, scope: Scope) -> tuple[str, ...]:
        """Return which other fields webhooks changed in writes for which it is not called."""
        own = [w for w in self._writes if self._leaves_out(scope, w)]
        other = (
            () if scope == "object" else [w for w in self._beside() if self._leaves_out(scope, w)]
        )
        said = (("in these writes", own), ("in writes of other objects", other))
        return tuple(
            f"{field_names(lost)} {where}"
            for where, writes in said
            if (
                lost := [
                    one for w in writes for one in _by_webhooks(w) if not self._is_in_paths(one)
                ]
            )
        )

    def _beside(self) -> Iterator[Write]:
        """Yield the last writes of other objects of the kind."""
        kind = (self._found.subject.group, self._found.subject.resource)
        others = (
            one.writes
            for name, one in self._histories.items()
            if name not in self._names
            and one.writes
            and (one.writes[0].object.group, one.writes[0].object.resource) == kind
        )
        yield from chain.from_iterable(islice(others, _MOST_OBJECTS))


def _by_webhooks(write: Write) -> tuple[Change, ...]:
    return write.all_of_webhooks() or ()


def _sent(write: Write) -> tuple[Change, ...]:
    return *write.content.sent, *write.metadata.sent


def _is_by(write: Write, actor: Actor) -> bool:
    if actor.type == "manager":
        return write.requester.manager == actor.name
    return write.requester.user == actor.name


def _is_cleared(write: Write) -> bool:
    """Whether an observedGeneration is lost that was asked for, or stored before."""
    wanted = write.observed_asked, write.observed_before
    return any(any(restorations(one, write.observed_sent)) for one in wanted)
