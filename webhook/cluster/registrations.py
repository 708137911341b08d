"""Keeps genguard's two mutating registrations as narrow as what they can show: follows need.

The validating registration, /outcome, says what is watched, and stays as it is. Of the others, a
phase is added as soon as a webhook or policy appears that may change a write, and taken away once
nothing has needed it for a minute. The leader alone writes. Where somebody writes back what it has
taken away, as a GitOps tool does, it takes nothing away for an hour, which is never wrong.

Validation, policies, quotas and conflicts refuse a write before validating webhooks are called.
Where /outcome is all that is registered, nothing of it is seen: RefusedWrites reads the metrics of
the API server (apiserver pkg/endpoints/metrics/metrics.go:requestCounter), and these writes get
/mutate for a while.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from genguard.admission.matching import Rule, Writes, may_match
from genguard.admission.review import Phase
from genguard.detection.suspects import Suspects
from genguard.linting.hook import FOLLOWED, GENGUARD, read_hooks
from genguard.needed_phases import Need, needs_of, rules_of
from webhook.cluster.rest import Rest, if_there
from webhook.election.leader import Leadership
from webhook.manifest.documents import Document, path_of
from webhook.manifest.rendering import PHASES, REGISTRATIONS, phase_of, registration_of
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

LOOK_SECONDS: Final = 10.0
"""Between two looks while nothing changes."""
KEPT_SECONDS: Final = 60.0
"""For so long a phase stays registered that nothing needs."""
LEFT_SECONDS: Final = 3600.0
"""For so long nothing is taken away after somebody has written it back."""
_PATHS: Final = {
    Phase(phase): path_of(registration_of(*named))
    for phase, named in zip(PHASES, REGISTRATIONS, strict=True)
}
_MUTATING: Final = (Phase.INTENT, Phase.MUTATE)


METRICS_SECONDS: Final = 15.0
"""Between two looks at the metrics."""
REFUSED_SECONDS: Final = 600.0
"""For so long writes count as refused after the last look that showed it."""
FEW: Final = 3
"""So many refusals between two looks are worth a call: a controller that is refused goes on."""
_MOST: Final = 1_000
_LINE: Final = re.compile(rb"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(rb'(code|dry_run|group|resource|subresource|verb)="([^"]*)"')
_OPERATIONS: Final = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "APPLY": "UPDATE"}
_CODES: Final = frozenset({"400", "403", "409", "422", "500"})


class Registrations(NamedTuple):
    """What is registered, and why.

    needs        what each of the watched writes needs
    phases       the phases that are registered for each, beside /outcome
    reverted_by  the field manager that writes back what is left out; "" where nobody does
    """

    needs: tuple[Need, ...] = ()
    phases: Mapping[Writes, tuple[Phase, ...]] = {}
    reverted_by: str = ""


@dataclass(slots=True)
class Follower:
    """Narrows and widens the registrations.

    refused     as in needs_of
    clock       gives monotonic seconds
    registered  what they were at the last look
    """

    calls: Rest
    suspects: Suspects
    leadership: Leadership
    enforcing: bool
    refused: Callable[[Writes], bool]
    clock: Callable[[], float] = time.monotonic
    registered: Registrations = field(default_factory=Registrations)
    _unneeded: dict[tuple[Phase, Writes], float] = field(default_factory=dict)
    """Since when a phase is registered for writes that do not need it."""
    _left: dict[Phase, frozenset[Writes]] = field(default_factory=dict)
    """What a phase was registered for when this replica last wrote it."""
    _reverted_at: float = float("-inf")

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield how many of the watched writes have each phase, by phase and why they have it."""
        needs, phases, _ = self.registered
        found = Counter((Phase.OUTCOME.value, "watched") for _ in needs)
        for one in needs:
            for phase in phases.get(one.writes, ()):
                found[phase.value, why(one, phase, enforcing=self.enforcing)] += 1
        yield from found.items()

    async def step(self) -> float:
        """Look, if webhooks and policies are known. Raises as `look` does."""
        if self.suspects.is_known:
            await self.look()
        return LOOK_SECONDS

    async def look(self) -> None:
        """Read the registrations, and write those that need something else.

        Raises RefusedError or one of UNREACHED.
        """
        found = await self._read()
        if found is None:
            return  # an installation is going on, or is still to come
        outcome = _rules(found[Phase.OUTCOME], Phase.OUTCOME)
        needs = needs_of(
            outcome, self.suspects.may_change, enforcing=self.enforcing, refused=self.refused
        )
        present = {phase: _rules(found[phase], phase) for phase in _MUTATING}
        now = {phase: _covered(rules, needs) for phase, rules in present.items()}
        self._see_reverts(found, now)
        if not self.leadership.is_leader:
            self._left.clear()
            self._unneeded.clear()
            self._reverted_at = float("-inf")
        else:
            kept = tuple(self._keep(needs, now))
            for phase in _MUTATING:
                rules = rules_of(phase, outcome, present[phase], kept)
                covered = _covered(rules, needs)
                if covered != now[phase]:
                    await self._write(phase, found[phase], rules)
                    for one in now[phase] - covered:  # what comes back has its minute again
                        self._unneeded.pop((phase, one), None)
                    self._left[phase] = now[phase] = covered
        phases = {
            one.writes: tuple(phase for phase in _MUTATING if one.writes in now[phase])
            for one in needs
        }
        self.registered = self.registered._replace(needs=needs, phases=phases)

    async def _read(self) -> dict[Phase, Document] | None:
        """Return the three registrations; None if one of them is not there."""
        found: dict[Phase, Document] = {}
        for phase, path in _PATHS.items():
            one = await if_there(self.calls.call("GET", path))
            if one is None:
                return None
            found[phase] = one
        return found

    def _keep(
        self, needs: Iterable[Need], now: Mapping[Phase, frozenset[Writes]]
    ) -> Iterator[Need]:
        """Yield the needs, with what is registered and was needed until a minute ago.

        After a revert that is all that is registered.
        """
        before, self._unneeded = self._unneeded, {}
        at = self.clock()
        is_left = at - self._reverted_at < LEFT_SECONDS
        for one in needs:
            kept = []
            for phase in _MUTATING:
                if phase in one.phases or one.writes not in now[phase]:
                    continue
                since = self._unneeded[phase, one.writes] = before.get((phase, one.writes), at)
                if is_left or at - since < KEPT_SECONDS:
                    kept.append(phase)
            yield one._replace(phases=(*one.phases, *kept))

    def _see_reverts(
        self, found: Mapping[Phase, Document], now: Mapping[Phase, frozenset[Writes]]
    ) -> None:
        """Note who has written back what this replica had left out."""
        at = self.clock()
        for phase in [one for one, left in self._left.items() if not now[one] <= left]:
            del self._left[phase]
            by = next((one.rules_writer for one in read_hooks([found[phase]])), "") or "unknown"
            if by == GENGUARD:
                continue  # `genguard install` has proven all phases again
            self._reverted_at = at
            self.registered = self.registered._replace(reverted_by=by)
            facts = {"configuration": found[phase]["metadata"]["name"], "by": by}
            LOGGER.warning("registrations are reverted", extra={"facts": facts})
        if at - self._reverted_at >= LEFT_SECONDS:
            self.registered = self.registered._replace(reverted_by="")

    async def _write(self, phase: Phase, found: Document, rules: list[Rule]) -> None:
        webhooks = [
            {**one, "rules": rules} if phase_of(one) == phase else one for one in found["webhooks"]
        ]
        old = found["metadata"]
        metadata = {**old, "annotations": {**(old.get("annotations") or {}), FOLLOWED: "follow"}}
        body = {**found, "metadata": metadata, "webhooks": webhooks}
        await self.calls.call("PUT", _PATHS[phase], body, params={"fieldManager": GENGUARD})
        facts = {"configuration": old["name"], "rules": len(rules)}
        LOGGER.info("registration follows need", extra={"facts": facts})


def why(need: Need, phase: Phase, *, enforcing: bool) -> str:
    """Return why writes have a phase: `changed` by others, `repaired`, `refused`, else `kept`."""
    if need.changed_by:
        return "changed"
    if phase is Phase.INTENT or phase not in need.phases:
        return "kept"
    return "repaired" if enforcing else "refused" if need.is_refused else "kept"


def _rules(configuration: Document, phase: Phase) -> list[Rule]:
    """Return the rules of the webhook of a phase."""
    hooks: list[dict[str, Any]] = configuration.get("webhooks") or []
    return [rule for one in hooks if phase_of(one) == phase for rule in one.get("rules") or ()]


def _covered(rules: Iterable[Rule], needs: Iterable[Need]) -> frozenset[Writes]:
    """Return the watched writes for which rules call."""
    rules = tuple(rules)
    return frozenset(one.writes for one in needs if may_match(rules, one.writes))


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
        self._until = {one: until for one, until in self._until.items() if until > now}
        # Another API server may have answered: then counts differ by chance, and a call too many
        # is made for a while.
        more = [one for one, count in counts.items() if count - before.get(one, 0) >= FEW]
        is_new = any(one not in self._until for one in more)
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
