"""Who besides the requester can have acted on a write: other webhooks, and policies.

Webhooks act between genguard's two mutating registrations, policies before them. Rules, scope,
selectors, operations and matchConditions are matched as the API server does it; what cannot be told
from a review (labels of a namespace, an authorizer) leaves it possible.
The webhooks of genguard, also of another genguard in the cluster, are never among them. Questions
about contents are asked while a review is at hand, see Observation.

Where several webhooks may have changed a write, other writes tell more. One that came through
unchanged speaks for each webhook that was called for it: most for writes of the same resource, less
for other writes of the same sort (of status, or not), since a webhook with an old type knows only
some kinds. A finding in which a webhook stands alone speaks against it everywhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import inf
from typing import Final

from genguard.admission.matching import (
    EVERYTHING,
    Conditions,
    Matched,
    Registration,
    ResourceKind,
    Rule,
    Writes,
    matched,
    may_match,
)
from genguard.admission.review import AdmissionRequest, Operation, Phase
from genguard.detection.finding import Confidence
from genguard.detection.webhook_changes import Tally
from genguard.detection.write import NOBODY, Acted, Called
from genguard.objects.selectors import Truth, every

MOST_PLACES: Final = 2_000
_MOST_POLICIES: Final = 8
"""Of one write."""
_MOST_CALLED: Final = 1_000
"""Writes with the webhooks called; those of one owner are alike."""
_MUTATING: Final = (Phase.INTENT, Phase.MUTATE)
"""The phases that a MutatingWebhookConfiguration registers, in order."""
_FEW: Final = 2
_TIMES: Final = 3

Shared = Counter[tuple[str, bool]]
"""How often a candidate, by name, stands in the findings of one kind, and whether alone in one."""
_Score = tuple[bool, int, int, int, int]
"""How little speaks against a webhook; the lowest score is the most suspicious one.

It has not stood alone, writes left unchanged here and elsewhere, how doubtful its registration is,
and less than nothing for each finding that it stands in."""
Acting = tuple[Called, tuple[Phase, ...]]
"""What registrations say of the writes that they cannot tell apart: the webhooks between genguard's
two that rules and selectors call, and phases that are not registered: nobody may change such a
write, so they would show nothing."""


class Mutators:
    """The present registrations, and how often each left a write unchanged."""

    def __init__(
        self,
        registered: Iterable[Registration] = (),
        policies: Iterable[Registration] = (),
        conditions: Conditions | None = None,
        named: Called | None = None,
    ) -> None:
        """Start with what is registered.

        conditions  evaluates matchConditions; without it each of them may hold
        named       who is known to have changed the write, from an audit log. None: only who may
                    have been called is known
        """
        self.conditions = conditions
        self.named = named
        self._unchanged: Final[Counter[tuple[ResourceKind | bool, str]]] = Counter()
        """Writes that each webhook left unchanged, by resource, and of status or of all else."""
        self._changed: Final[set[ResourceKind]] = set()
        self.policies: tuple[Registration, ...] = ()
        """Those that are bound, by name."""
        self.tally: Final = Tally()
        """What each webhook does."""
        self.on_change: Callable[[], object] = bool
        """Called when something was learnt."""
        self._unlearnt: set[str] = set()
        self.learn(registered, policies)
        self._unlearnt = {"webhooks", "policies"}

    def learn(
        self,
        registered: Iterable[Registration] | None = None,
        policies: Iterable[Registration] | None = None,
    ) -> None:
        """Replace the registrations of webhooks, or the bound policies; None leaves them."""
        if registered is not None:
            self._unlearnt.discard("webhooks")
            self.registered: tuple[Registration, ...] = tuple(registered)
            self.others: tuple[Registration, ...] = tuple(_between(self.registered))
            """Those that are called between genguard's intent and its mutate."""
        if policies is not None:
            self._unlearnt.discard("policies")
            self.policies = tuple(policies)
        webhooks = [webhook for webhook in self.registered if not webhook.phase]
        self._known = {entry.name: entry for entry in (*webhooks, *self.policies)}
        self._own: dict[str, list[Rule]] = {}
        for webhook in self.registered:
            if webhook.phase:
                self._own.setdefault(webhook.phase, []).extend(webhook.match.rules)
        self._reads_names = any(
            rule.get("resourceNames") for other in self.others for rule in other.match.rules
        )
        self._reads_labels = any(other.match.objects for other in self.others)
        # A thread that still asks the old ones must not answer for the new ones.
        self._acting = lru_cache(_MOST_CALLED)(self.acting)
        self._of = lru_cache(_MOST_CALLED)(self._of_group)
        self.on_change()

    @property
    def is_known(self) -> bool:
        """Whether both webhooks and policies were learnt of a cluster."""
        return not self._unlearnt

    def anew(self) -> "Mutators":
        """Return the same registrations, and no evidence yet."""
        return Mutators(self.registered, self.policies, self.conditions)

    def may_change(self, writes: Writes) -> tuple[str, ...]:
        """Return the webhooks and policies whose rules cover some of these writes.

        Selectors and conditions are not read: it may name too many, and never too few.
        """
        return tuple(name for name, rules in self._of(writes.group) if may_match(rules, writes))

    def _of_group(self, group: str) -> Sequence[tuple[str, Sequence[Rule]]]:
        any_write = Writes(group, "*/*", EVERYTHING)
        known = ((name, entry.match.rules) for name, entry in self._known.items())
        return [(name, rules) for name, rules in known if may_match(rules, any_write)]

    def acting(self, write: Matched) -> Acting:
        """Return what rules and selectors say of such a write."""
        found = [other for other in self.others if other.covers(write) is not Truth.FALSE]
        again = [other for other in found if other.reinvoked]
        called = Called(tuple(other.name for other in found), tuple(other.name for other in again))
        if self.may_change(write.writes):
            return called, ()
        # Only where genguard's own registrations are known.
        own = ((phase, self._own.get(f"/{phase}")) for phase in _MUTATING)
        return called, tuple(
            phase
            for phase, rules in own
            if rules is not None and not may_match(rules, write.writes)
        )

    def acting_in(self, phase: Phase, request: AdmissionRequest) -> Acting:
        """Return what rules and selectors say of a request, or who is named; of an intent nothing.

        The phases are those besides this one.
        """
        if self.named is not None or phase is Phase.INTENT or not (self.others or self._own):
            return self.named or NOBODY, ()
        called, unseen = self._acting_on(request)
        return called, tuple(other for other in unseen if other is not phase)

    def may_act(self, request: AdmissionRequest, where: ResourceKind) -> bool:
        """Whether webhooks may change such a request, or have changed one where none are known."""
        if self.named is not None:
            return bool(self.named.first)
        if not self.registered:
            return where in self._changed
        return bool(self.others and self._acting_on(request)[0].first)

    def _acting_on(self, request: AdmissionRequest) -> Acting:
        write = matched(request, with_name=self._reads_names, with_labels=self._reads_labels)
        return (self._acting if write.is_short else self.acting)(write)

    def shows_deletions(self, where: ResourceKind) -> bool:
        """Whether deletions of a resource are shown, as far as it is known."""
        rules = self._own.get(f"/{Phase.OUTCOME}")
        shown = Writes(where.group, where.resource, Operation.DELETE)
        return self.named is not None or rules is None or may_match(rules, shown)

    def changed(self, where: ResourceKind) -> None:
        """Note that writes here are changed: from now on conditions are evaluated for them."""
        if len(self._changed) < MOST_PLACES:
            self._changed.add(where)

    def unmet_in(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Return the called webhooks whose matchConditions the request does not meet.

        Conditions take ten times what the rest of a review takes. So they are asked only where
        somebody has changed a write before: nobody is ruled out for the first one.
        """
        held = self._held(self._conditional_in(request), request)
        return tuple(webhook.name for webhook, _, met in held if met is Truth.FALSE)

    def asks_conditions(self, request: AdmissionRequest) -> bool:
        """Whether `unmet_in` or `policies_in` may have conditions evaluated, which takes long."""
        return any(entry.conditions for entry in (*self.policies, *self._conditional_in(request)))

    def _conditional_in(self, request: AdmissionRequest) -> Sequence[Registration]:
        wire = request.wire
        kind = ResourceKind(wire.resource.group, wire.resource.resource, wire.sub_resource)
        return [other for other in self.others if other.conditions] if kind in self._changed else ()

    def policies_in(self, request: AdmissionRequest) -> tuple[Acted, ...]:
        """Return the policies that may have acted on a request."""
        found = [
            Acted(policy.name, every((covers, met)) is Truth.TRUE)
            for policy, covers, met in self._held(self.policies, request)
            # Nobody sees the object as it was before the policy acted.
            if met is not Truth.FALSE or policy.reads_object
        ]
        return tuple(found[:_MOST_POLICIES])

    def _held(
        self, entries: Sequence[Registration], request: AdmissionRequest
    ) -> Iterator[tuple[Registration, Truth, Truth]]:
        """Yield those that cover a request, whether they do, and whether all conditions are met.

        One false condition decides. Conditions see the object in the version that a rule names:
        they are unknown in another. Source: apiserver pkg/admission/plugin/webhook/matchconditions.
        """
        if not entries:
            return
        write = matched(request)
        asked = [
            (entry, covers, entry.match.is_exact(write))
            for entry in entries
            if (covers := entry.covers(write)) is not Truth.FALSE
        ]
        read = [text for entry, _, is_exact in asked if is_exact for text in entry.conditions]
        truths = self.conditions.evaluate(read, request) if self.conditions else {}
        for entry, covers, is_exact in asked:
            met = every(truths.get(text, Truth.UNKNOWN) for text in entry.conditions)
            yield entry, covers, met if is_exact else Truth.UNKNOWN

    def sets(self, name: str, pointers: Iterable[str]) -> bool:
        """Whether a policy visibly sets a field at any of these JSON Pointers."""
        return name in self._known and any(map(self._known[name].sets, pointers))

    def unchanged_calls(self, name: str) -> int:
        """Return how many writes came through unchanged for which this webhook was called."""
        return self._unchanged[True, name] + self._unchanged[False, name]

    def record_unchanged(self, names: Iterable[str], where: ResourceKind) -> None:
        """Count a write that the called webhooks left unchanged."""
        for key in [(at, name) for name in names for at in (where, where.subresource == "status")]:
            if key in self._unchanged or len(self._unchanged) < 2 * MOST_PLACES:
                self._unchanged[key] += 1

    def age(self, name: str, began: float) -> tuple[float, str] | None:
        """Return how old a webhook or policy was when a loop began: see Registration.age."""
        return self._known[name].age(began) if name in self._known else None

    def by_age(self, names: Iterable[str], began: float) -> tuple[str, ...]:
        """Return names in order: those that were young when a loop began, the youngest first."""
        return tuple(sorted(names, key=lambda name: (self.age(name, began) or (inf, ""), name)))

    def candidates(
        self, names: Sequence[str], shared: Shared, where: ResourceKind
    ) -> tuple[tuple[str, Confidence], ...]:
        """Return the candidates of a finding, the likeliest first: one alone is certain.

        Those who are equal stay in their order.
        """
        if len(names) == 1 or self.named is not None:
            return tuple((name, Confidence.CERTAIN) for name in names)
        doubts = {other.name: other.doubtful for other in self.others}
        scores: dict[str, _Score] = {
            name: (
                not shared[name, True],
                self._unchanged[where, name],
                self._unchanged[where.subresource == "status", name],
                doubts.get(name, 0),
                -shared[name, True] - shared[name, False],
            )
            for name in names
        }
        first, *others = sorted(names, key=scores.__getitem__)
        stands_out = _stands_out(scores[first], scores[others[0]])
        sure = Confidence.LIKELY if stands_out else Confidence.POSSIBLE
        return (first, sure), *((other, Confidence.POSSIBLE) for other in others)


def _stands_out(first: _Score, second: _Score) -> bool:
    """Whether a score is lower by more than chance would make."""
    if first[0] != second[0]:
        return True
    for count, other in zip(first[1:3], second[1:3], strict=True):
        if count != other:
            return other >= _TIMES * count + _FEW
    return first[3] == second[3] and first[4] < second[4]


def _between(registered: Sequence[Registration]) -> Iterator[Registration]:
    """The webhooks called after genguard's intent and before its mutate."""
    intents = [
        registration.configuration.encode()
        for registration in registered
        if registration.phase == "/intent"
    ]
    mutates = [
        registration.configuration.encode()
        for registration in registered
        if registration.phase == "/mutate"
    ]
    for registration in registered:
        name = registration.configuration.encode()
        after = not intents or name > min(intents)
        if not registration.phase and after and (not mutates or name < max(mutates)):
            yield registration
