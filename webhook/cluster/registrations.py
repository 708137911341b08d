"""Keeps genguard's registrations as narrow as what they can show: follows need.

The rules of outcome.genguard.io say what is watched, and stay as they are. Another phase
is added as soon as a webhook or policy appears that may change a write, and taken away once nothing
has needed it for a minute. The leader alone writes. Where somebody writes back what it has taken
away, as a GitOps tool does, it takes nothing away for an hour, which is never wrong.

Validation, policies, quotas and conflicts refuse a write before validating webhooks are called.
Where /outcome is all that is registered, nothing of it is seen: RefusedWrites reads the metrics of
the API server (apiserver pkg/endpoints/metrics/metrics.go:requestCounter), and these writes get
/mutate for a while.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from genguard.admission.matching import EVERYTHING, Rule, Writes, may_match
from genguard.admission.review import Phase
from genguard.detection.mutators import Mutators
from genguard.generation.custom import CustomResource
from genguard.linting.hook import FOLLOWED, GENGUARD, read_hooks
from genguard.needed_phases import Need, custom_writes, needs_of, rules_for, rules_of, writes_of
from webhook.cluster.rest import Rest, if_there
from webhook.election.leader import Leadership
from webhook.manifest.documents import Document, path_of
from webhook.manifest.rendering import REGISTRATIONS, phase_of, registration_of
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

LOOK_SECONDS: Final = 10.0
"""Between two looks while nothing changes."""
KEPT_SECONDS: Final = 60.0
"""How long a phase stays registered that nothing needs."""
LEFT_SECONDS: Final = 3600.0
"""How long nothing is taken away after somebody has written it back."""
_INTENT, _MUTATE, _OUTCOME = (path_of(registration_of(*named)) for named in REGISTRATIONS)
_MUTATING: Final = (Phase.INTENT, Phase.MUTATE)
_REPAIR: Final = "repair"
_CHANGED: Final = "changed"
_PATHS: Final = {Phase.INTENT: _INTENT, Phase.MUTATE: _MUTATE, _REPAIR: _MUTATE, _CHANGED: _OUTCOME}
"""The path of each webhook whose rules are kept, by the first part of its name."""


METRICS_SECONDS: Final = 15.0
"""Between two looks at the metrics."""
REFUSED_SECONDS: Final = 600.0
"""How long writes count as refused after the last look that showed it."""
FEW: Final = 3
"""So many refusals between two looks are worth a call: a controller that is refused goes on."""
_MOST: Final = 1_000
_LINE: Final = re.compile(rb"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(rb'(code|dry_run|group|resource|subresource|verb)="([^"]*)"')
_OPERATIONS: Final = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "APPLY": "UPDATE"}
_CODES: Final = frozenset({"400", "403", "409", "422", "500"})


class Registrations(NamedTuple):
    """What is registered, and why.

    needs        what each write needs that is watched, or that is called for
    phases       what is registered for each: phases, and "repair"
    reverted_by  the field manager that writes back what is left out; "" where nobody does
    """

    needs: tuple[Need, ...] = ()
    phases: Mapping[Writes, tuple[str, ...]] = {}
    reverted_by: str = ""


@dataclass(slots=True)
class Follower:
    """Narrows and widens the registrations.

    refused, always  as in needs_of
    custom      returns the custom resources of the cluster
    clock       gives monotonic seconds
    registered  what they were at the last look
    """

    calls: Rest
    mutators: Mutators
    leadership: Leadership
    enforcing: bool
    refused: Callable[[Writes], bool]
    custom: Callable[[], Iterable[CustomResource]] = tuple
    always: bool = False
    clock: Callable[[], float] = time.monotonic
    registered: Registrations = field(default_factory=Registrations)
    _unneeded: dict[tuple[str, Writes], float] = field(default_factory=dict)
    """Since when a phase is registered for writes that do not need it."""
    _left: dict[str, frozenset[Writes]] = field(default_factory=dict)
    """What each was registered for when this replica last wrote it."""
    _reverted_at: float = float("-inf")

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield how many of the watched writes have each phase, by phase and why they have it."""
        needs, phases, _ = self.registered
        counts = Counter((name, why(need, name)) for need in needs for name in phases[need.writes])
        yield from counts.items()

    async def step(self) -> float:
        """Look, if webhooks and policies are known. Raises as `look` does."""
        if self.mutators.is_known:
            await self.look()
        return LOOK_SECONDS

    async def look(self) -> None:
        """Read the registrations, and write those that need something else.

        Raises RefusedError or one of UNREACHED.
        """
        found = await self._read()
        if found is None:
            return  # an installation is going on, or is still to come
        outcome = _rules(found[_OUTCOME], Phase.OUTCOME)
        custom = custom_writes(self.custom(), outcome)
        needs = needs_of(
            outcome,
            self.mutators.may_change,
            enforcing=self.enforcing,
            always=self.always,
            refused=self.refused,
            custom=custom,
        )
        present = {name: _rules(found[at], name) for name, at in _PATHS.items()}
        now = {name: _covered(rules, needs) for name, rules in present.items()}
        self._see_reverts(found, now)
        if not self.leadership.is_leader:
            self._left.clear()
            self._unneeded.clear()
            self._reverted_at = float("-inf")
        else:
            kept = tuple(self._keep(needs, now))
            wanted = present | dict(self._wanted(outcome, custom, present, kept))
            covered = {name: _covered(rules, needs) for name, rules in wanted.items()}
            for path, document in found.items():
                names = [name for name, at in _PATHS.items() if at == path]
                if all(covered[name] == now[name] for name in names):
                    continue
                await self._write(path, document, wanted)
                for name in names:
                    for write in now[name] - covered[name]:  # what comes back has its minute again
                        self._unneeded.pop((name, write), None)
                    self._left[name] = now[name] = covered[name]
        outcomes = frozenset(need.writes for need in needs if need.writes not in custom)
        now[Phase.OUTCOME] = now.pop(_CHANGED) | outcomes
        phases = {
            need.writes: tuple(name for name, covered in now.items() if need.writes in covered)
            for need in needs
        }
        shown = tuple(need for need in needs if phases[need.writes])
        self.registered = self.registered._replace(needs=shown, phases=phases)

    def _wanted(
        self,
        outcome: Sequence[Rule],
        custom: Container[Writes],
        present: Mapping[str, list[Rule]],
        needs: Sequence[Need],
    ) -> Iterator[tuple[str, list[Rule]]]:
        """Yield the rules of each webhook after what writes need; of some alone after a revert."""
        for phase in _MUTATING:
            mine = [need.writes for need in needs if need.writes in custom and phase in need.phases]
            yield phase, [*rules_of(phase, outcome, present[phase], needs), *rules_for(mine)]
        if not self._is_left:
            repaired = (
                need for need in needs if need.is_repaired and Phase.MUTATE not in need.phases
            )
            yield _REPAIR, rules_for(need.writes for need in repaired)
            changed = [need.writes for need in needs if need.writes in custom and need.phases]
            ended = [
                write._replace(operation="DELETE")
                for write in changed
                if write.operation == "CREATE"
            ]
            yield _CHANGED, rules_for([*changed, *ended])

    @property
    def _is_left(self) -> bool:
        return self.clock() - self._reverted_at < LEFT_SECONDS

    async def _read(self) -> dict[str, Document] | None:
        """Return the three registrations by path; None if one, or a webhook, is not there."""
        found: dict[str, Document] = {}
        for name, path in _PATHS.items():
            document = found.get(path) or await if_there(self.calls.call("GET", path))
            if document is None or name not in map(phase_of, document["webhooks"]):
                return None
            found[path] = document
        return found

    def _keep(self, needs: Iterable[Need], now: Mapping[str, frozenset[Writes]]) -> Iterator[Need]:
        """Yield the needs, with what is registered and was needed until a minute ago.

        After a revert it is all that is registered.
        """
        before, self._unneeded = self._unneeded, {}
        at = self.clock()
        for need in needs:
            kept = []
            for phase in _MUTATING:
                if phase in need.phases or need.writes not in now[phase]:
                    continue
                since = self._unneeded[phase, need.writes] = before.get((phase, need.writes), at)
                if self._is_left or at - since < KEPT_SECONDS:
                    kept.append(phase)
            yield need._replace(phases=(*need.phases, *kept))

    def _see_reverts(
        self, found: Mapping[str, Document], now: Mapping[str, frozenset[Writes]]
    ) -> None:
        """Note who has written back what this replica had left out, or taken away its own rules."""
        for name, left in [*self._left.items()]:
            if now[name] <= left if name in _MUTATING else now[name] >= left:
                continue
            del self._left[name]
            document = found[_PATHS[name]]
            hooks = (hook for hook in read_hooks([document]) if phase_of(hook.body) == name)
            by = next((hook.rules_writer for hook in hooks), "") or "unknown"
            if by == GENGUARD:
                continue  # `genguard install` has proven all phases again
            self._reverted_at = self.clock()
            self.registered = self.registered._replace(reverted_by=by)
            fields = {"configuration": document["metadata"]["name"], "by": by}
            LOGGER.warning("registrations are reverted", extra={"fields": fields})
        if not self._is_left:
            self.registered = self.registered._replace(reverted_by="")

    async def _write(self, path: str, found: Document, rules: Mapping[str, list[Rule]]) -> None:
        # The API server leaves out rules where there are none.
        named = [(phase_of(webhook), webhook) for webhook in found["webhooks"]]
        webhooks = [
            {**webhook, "rules": rules[name]} if name in rules else webhook
            for name, webhook in named
        ]
        old = found["metadata"]
        metadata = {**old, "annotations": {**(old.get("annotations") or {}), FOLLOWED: "follow"}}
        body = {**found, "metadata": metadata, "webhooks": webhooks}
        await self.calls.call("PUT", path, body, params={"fieldManager": GENGUARD})
        count = sum(len(webhook.get("rules") or ()) for webhook in webhooks)
        fields = {"configuration": old["name"], "rules": count}
        LOGGER.info("registration follows need", extra={"fields": fields})


def why(need: Need, name: str) -> str:
    """Return why something is registered for writes: `changed` by others, `refused`, or `kept`.

    /outcome is `watched`, and what only repairs `repaired`.
    """
    if name in (Phase.OUTCOME, _REPAIR):
        return "repaired" if name == _REPAIR else "watched"
    if need.changed_by:
        return "changed"
    return "refused" if need.is_refused and name == Phase.MUTATE else "kept"


def _rules(configuration: Document, name: str) -> list[Rule]:
    """Return the rules of a webhook by the first part of its name."""
    hooks: list[dict[str, Any]] = configuration.get("webhooks") or []
    return [rule for hook in hooks if phase_of(hook) == name for rule in hook.get("rules") or ()]


def _covered(rules: Iterable[Rule], needs: Iterable[Need]) -> frozenset[Writes]:
    """Return the watched writes for which rules call."""
    # There is one for each group of custom resources: too many to ask each of them for each write.
    named = {write: rule for rule in rules for write in writes_of(rule)}
    wide = [rule for write, rule in named.items() if EVERYTHING in f"{write.group}{write.resource}"]
    return frozenset(
        need.writes for need in needs if need.writes in named or may_match(wide, need.writes)
    )


@dataclass(slots=True)
class RefusedWrites:
    """Reads the metrics of an API server again and again.

    changed  is called when writes are refused that were not before
    clock    gives monotonic seconds
    """

    calls: Rest
    changed: Callable[[], object] = bool
    clock: Callable[[], float] = time.monotonic
    _counts: Mapping[Writes, float] | None = None
    _until: dict[Writes, float] = field(default_factory=dict)

    def is_refused(self, writes: Writes) -> bool:
        """Whether such writes were refused lately."""
        return self._until.get(writes, 0.0) > self.clock()

    async def step(self) -> float:
        """Look at the metrics. Raises RefusedError or one of UNREACHED."""
        text = await self.calls.read("/metrics")
        self.see(await in_thread(refusals, text))  # some megabytes
        return METRICS_SECONDS

    def see(self, counts: Mapping[Writes, float]) -> None:
        """Take in how many writes were refused since the start of the API server."""
        before, self._counts = self._counts, counts
        if before is None:
            return
        now = self.clock()
        self._until = {write: until for write, until in self._until.items() if until > now}
        # Another API server may have answered: then counts differ by chance, and a call too many
        # is made for a while.
        more = [write for write, count in counts.items() if count - before.get(write, 0) >= FEW]
        is_new = any(write not in self._until for write in more)
        self._until |= dict.fromkeys(more[:_MOST], now + REFUSED_SECONDS)
        if is_new:
            self.changed()


def refusals(text: bytes) -> dict[Writes, float]:
    """Return how many writes were refused, by metrics in the text format of Prometheus."""
    found: dict[Writes, float] = {}
    for line in _LINE.finditer(text):
        labels = {key.decode(): value.decode() for key, value in _LABEL.findall(line[1])}
        operation = _OPERATIONS.get(labels.get("verb", ""))
        if operation and labels.get("code") in _CODES and not labels.get("dry_run"):
            group, subresource = labels.get("group", ""), labels.get("subresource", "")
            writes = Writes.named(group, labels["resource"], subresource, operation)
            found[writes] = found.get(writes, 0.0) + float(line[2])
    return found
