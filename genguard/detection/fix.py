"""The change that ends a loop: from a finding to ordered steps, with commands ready to copy.

Reads    a finding; where they are known, the registered webhooks, how genguard was installed, and
         the last writes of all objects
Result   only steps that apply: by the detector, by genguard's mode, by the type of the actors, by
         what they are (Argo CD, Flux, Helm, kubectl, an autoscaler), and by how sure it is. First
         what stops the damage, then what ends the cause. Nothing is to be changed for an actor
         that is only possible: then a step finds out who it is. Each step is tried on the last
         writes; one that would not have ended all of them comes last
Relies   on nothing of an object's content: names and paths alone

What to do and the words for it are in fix.yaml. A detector without a plan there gets the plan for
others, so a new one needs nothing here.

A trial says in how many of the writes that do harm the step would have ended it, and what else it
would have changed. Of a webhook, writes do harm in which webhooks changed a field of the finding;
of a policy, which is not seen at work, those on which it acted; of a writer, those that set such a
field. It relies on the next writes being like the last ones. Nothing is written for it.
"""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import msgspec
import yaml

from genguard.detection.changes import Change
from genguard.detection.finding import Actor, Confidence, Finding, FixStep, Trial
from genguard.detection.history import ObjectHistory, history_name
from genguard.detection.sample import field_names, is_at_or_below, shown_diff
from genguard.detection.suspects import Registered
from genguard.detection.write import BY_HAND, ObjectKey, Write
from genguard.formats.documents import load_document
from genguard.generation.table import kind_of
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
        self._histories: Final = histories or {}
        examples = (found.object,) if found.objects is None else found.objects.examples
        keys = (ObjectKey(*msgspec.structs.astuple(one)) for one in examples)
        self._names: Final = set(map(history_name, keys))
        own = (self._histories[name].writes for name in self._names if name in self._histories)
        self._writes: Final[Sequence[Write]] = [*chain.from_iterable(own)]
        self._found: Final = found
        self._paths: Final = frozenset(found.paths)

    def not_called(self, scope: Scope, *, policy: str = "") -> Trial:
        """Try to call a webhook for less, or the policy that is named."""
        harmed = [w for w in self._writes if self._is_harmed(_by_webhooks(w))]
        if policy:
            harmed = [w for w in self._writes if policy in {one.name for one in w.policies}]
        elif scope == "again":
            return self._trial([w for w in harmed if not self._is_changed_anew(w)], harmed)
        ended = [w for w in harmed if self._leaves_out(scope, w)]
        return self._trial(ended, harmed, () if policy else self._also(scope))

    def left_alone(self, actors: Collection[Actor]) -> Trial:
        """Try to have writers leave the fields of the finding to others."""
        sent = [(w, _sent(w)) for w in self._writes if any(_is_by(w, one) for one in actors)]
        harmed = [w for w, changes in sent if self._is_harmed(changes)]
        if any(one.policies for one in harmed):
            return _MAY_BE_OF_OTHERS
        ended = [
            w
            for w in harmed
            if not any(
                self._is_undone(one, w)
                for one in _sent(w)
                if not (one.holds_time or self._is_in_paths(one))
            )
        ]
        return self._trial(ended, harmed)

    def restored(self) -> Trial:
        """Try to restore each observedGeneration that is cleared, as genguard does enforcing."""
        harmed = [w for w in self._writes if self._is_harmed(_by_webhooks(w))] or [
            w
            for w in self._writes
            if self._is_harmed(_sent(w)) and any(_is_by(w, one) for one in self._found.actors)
        ]
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
        """Whether the webhook or policy is not called for a write any more: see `_condition`."""
        if scope == "status":
            return write.subresource == "status"
        return scope == "kind" or write.object.name == self._found.subject.name

    def _is_changed_anew(self, write: Write) -> bool:
        """Whether the first call of the webhook changes what its last call has made, too."""
        first = [*(write.content.webhook or ()), *(write.metadata.webhook or ())]
        return self._is_harmed(one for one in first if one.before is not None)

    def _is_undone(self, change: Change, write: Write) -> bool:
        """Whether somebody else writes the same field."""
        others = (w for w in self._writes if w.requester.writer != write.requester.writer)
        return any(one.key == change.key for other in others for one in _sent(other))

    def _also(self, scope: Scope) -> tuple[str, ...]:
        """Return which other fields webhooks changed in writes for which it is not called."""
        beside = () if scope == "object" else self._beside()
        said = (("in these writes", self._writes), ("in writes of other objects", beside))
        found = []
        for where, writes in said:
            changes = [one for w in writes if self._leaves_out(scope, w) for one in _by_webhooks(w)]
            if lost := [one for one in changes if not self._is_in_paths(one)]:
                found.append(f"{field_names(lost)} {where}")
        return tuple(found)

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


_REPLICAS: Final = "/spec/replicas"
_OBSERVED: Final = "observedGeneration"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 63
_WRITERS: Final = ("user", "manager")
"""Types of actors that send writes."""
_MAY_BE_ABSENT: Final = ("request.name", "request.subResource")


class Installation(NamedTuple):
    """How genguard runs, as far as a step depends on it.

    enforcing  whether it repairs; None where that is not known, as in an audit log
    enforce    the command that makes it enforcing, with all else as it is; "" where none is known
    connected  whether it knows the version of the cluster by itself; None where that is not known
    """

    enforcing: bool | None = None
    enforce: str = ""
    connected: bool | None = None


UNKNOWN_INSTALLATION: Final = Installation()

_NO_HISTORIES: Final[Mapping[str, ObjectHistory]] = MappingProxyType({})
ToolName = Literal["argo", "kustomization", "helm_release", "manifest"]


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ends the loops of one detector; fix.yaml explains the fields."""

    scope: Scope
    webhook: str
    writer: str
    fights: bool = False
    restores: bool = False
    harmless: bool = False


class StepText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a step, with names in {}; `not_tried` says why it cannot be tried."""

    title: str
    text: str
    lasting: bool = False
    not_tried: str = ""

    def fill(
        self, command: str = "", stanza: str = "", trial: Trial | None = None, **names: str
    ) -> FixStep:
        """Return the step with these names."""
        title, text = self.title.format(**names), self.text.format(**names)
        if self.not_tried:
            trial = Trial(not_tried=self.not_tried)
        return FixStep(title, text, command, stanza, self.lasting, trial)


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who keeps objects as manifests say; fix.yaml explains the fields."""

    marks: frozenset[str]
    name: str = ""
    kept_by: dict[str, str] = {}


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of fix.yaml, which explains the fields."""

    plans: dict[str, Plan]
    policy: str
    scopes: dict[Scope, str]
    tools: dict[ToolName, Tool]
    autoscalers: frozenset[str]
    steps: dict[str, StepText]

    def plan(self, detector: str) -> Plan:
        """Return the plan of a detector."""
        return self.plans.get(detector, self.plans["other"])


@cache
def load_advice() -> Advice:
    """Read and check fix.yaml."""
    text = resources.files("genguard.detection").joinpath("fix.yaml").read_bytes()
    return msgspec.convert(load_document(text), Advice)


def fix(
    found: Finding,
    registered: Sequence[Registered] = (),
    installation: Installation = UNKNOWN_INSTALLATION,
    histories: Mapping[str, ObjectHistory] | None = _NO_HISTORIES,
) -> tuple[FixStep, ...]:
    """Return the steps, the first to take first.

    registered  the webhooks of the cluster, in their order; a rule is named only where it is known
    histories   the last writes of all objects (History.snapshot), on which the steps are tried;
                None where another replica judges, and so has them
    """
    steps = _Steps(found, registered, installation, Trials(found, histories)).all()
    return tuple(sorted(steps, key=lambda one: (_is_refuted(one), one.lasting)))


def _is_refuted(step: FixStep) -> bool:
    """Whether some writes would have done harm all the same."""
    trial = step.trial
    return trial is not None and trial.of > 0 and not trial.is_whole


def with_fix(
    found: Finding,
    registered: Sequence[Registered] = (),
    installation: Installation = UNKNOWN_INSTALLATION,
    sample: bytes | None = None,
    histories: Mapping[str, ObjectHistory] | None = _NO_HISTORIES,
) -> Finding:
    """Return the finding with its steps, and with what happened in its sample."""
    diff = None if sample is None else shown_diff(sample)
    steps = fix(found, registered, installation, histories)
    return msgspec.structs.replace(found, fix=steps, diff=diff)


def _step(name: str) -> StepText:
    return load_advice().steps[name]


class _Steps(NamedTuple):
    """What the steps of one finding are made from."""

    found: Finding
    registered: Sequence[Registered]
    installation: Installation
    trials: Trials

    @property
    def plan(self) -> Plan:
        return load_advice().plan(self.found.detector)

    @property
    def target(self) -> str:
        return f"{self.found.subject.resource_name}/{self.found.subject.name}"

    @property
    def fields(self) -> str:
        return ", ".join(map(_field, self.found.paths))

    def all(self) -> Iterator[FixStep]:
        """Yield the steps that apply."""
        found, plan = self.found, self.plan
        if found.above:
            command = f"genguard explain finding/{found.above}"
            text = _step("end_cause") if found.caused_by else _step("end_whole")
            yield text.fill(command, cause=found.above)
            return
        if plan.harmless:
            is_connected = self.installation.connected
            yield _step("harmless_connected" if is_connected else "harmless").fill(what=plan.writer)
            return
        if plan.restores and _is_restored(found):
            yield from self.by_genguard()
        sure = [one for one in found.actors if one.confidence is not Confidence.POSSIBLE]
        if not sure:
            yield self.find_out()
        writers = [one for one in sure if one.type in _WRITERS]
        if plan.fights and _REPLICAS in found.paths:
            yield from self.autoscaled(writers)
        for actor in sure:
            if actor.type not in _WRITERS:
                yield from self.of_other(actor)
        if plan.fights:
            yield from filter(None, map(self.of_tool, writers))
        yield from self.of_writers(writers)
        if found.repair and found.state != "resolved":
            yield self.by_hand(is_proven=bool(sure))

    def by_genguard(self) -> Iterator[FixStep]:
        """Yield what genguard does, or would do, for a value that it can restore."""
        installation = self.installation
        if installation.enforcing is False:
            text = _step("enforce" if installation.enforce else "enforce_by_flags")
            yield text.fill(installation.enforce, trial=self.trials.restored())
        elif installation.enforcing and self.found.state == "open" and not self.found.repair:
            yield _step("not_urgent").fill()

    def by_hand(self, *, is_proven: bool) -> FixStep:
        """Return the step that puts a lost value back into the stored object."""
        text = _step("repair")
        if not self.installation.enforcing and self.found.state == "open":
            text = _step("repair_after_others" if is_proven else "repair_lost_again")
        return text.fill(self.found.repair)

    def find_out(self) -> FixStep:
        """Return the step for a finding in which nobody is named with confidence."""
        if any(one.type == "webhook" for one in self.found.actors):
            return _step("find_webhook").fill(self.command("genguard", "trace"))
        fields = map(_field, self.found.paths[:1])
        return _step("find_writer").fill(self.command("genguard", "blame", last=fields))

    def of_other(self, actor: Actor) -> Iterator[FixStep]:
        """Yield what is changed about an actor that is no user."""
        name, how = actor.name, self.plan.webhook
        if actor.type == "webhook":
            yield self.of_webhook(name)
            name = name.partition("/")[2]
        elif actor.type == "policy":
            yield self.of_policy(name)
            name, how = f"the policy {name}", load_advice().policy
        yield _step("correct").fill(name=name, how=how)

    def of_webhook(self, name: str) -> FixStep:
        """Return the step after which a webhook is called for less."""
        configuration, _, webhook = name.partition("/")
        scope, trial = self.scope(self.plan.scope)
        rules = self.without_rules(configuration, webhook) if scope == "status" else None
        patch: Any = rules
        text, form = _step("no_status_rule"), "json"
        if rules is None:
            text, form = _step("not_called"), "strategic"
            change: dict[str, Any] = {"matchConditions": [_condition(self.found, scope)]}
            if scope == "again":
                text, change = _step("called_once"), {"reinvocationPolicy": "Never"}
            patch = {"webhooks": [{"name": webhook, **change}]}
        return text.fill(
            self.patch("mutatingwebhookconfiguration", configuration, form, patch),
            trial=trial,
            webhook=webhook,
            configuration=configuration,
            scope=load_advice().scopes[scope],
        )

    def of_policy(self, name: str) -> FixStep:
        """Return the step after which a policy acts on less; it knows of no second call."""
        scope, trial = self.scope("object" if self.plan.scope == "again" else self.plan.scope, name)
        patch = {"spec": {"matchConditions": [_condition(self.found, scope)]}}
        command = self.patch("mutatingadmissionpolicy", name, "strategic", patch)
        words = load_advice().scopes[scope]
        return _step("policy").fill(command, trial=trial, name=name, scope=words)

    def scope(self, planned: Scope, policy: str = "") -> tuple[Scope, Trial]:
        """Return what is taken from a webhook or policy, and what came of trying that.

        The object, or the kind of many objects, where less does not end it: a kind may have no
        status of its own, and a webhook that changes its own work again does so in the next write
        as well.
        """
        widest: Scope = "object" if self.found.objects is None else "kind"
        is_of_status = self.found.subresource == "status"
        is_whole = planned == "object" or (planned == "status" and not is_of_status)
        scope = widest if is_whole else planned
        trial = self.trials.not_called(scope, policy=policy)
        if trial.of and not trial.is_whole:
            wider = self.trials.not_called(widest, policy=policy)
            if wider.is_whole:
                return widest, wider
        return scope, trial

    def without_rules(self, configuration: str, webhook: str) -> list[dict[str, Any]] | None:
        """Return the JSON Patch that takes explicit rules for the status out; None without any.

        Each is tested before: an index may be another one by now.
        """
        resource = self.found.subject.resource
        named = (f"{resource}/status", "*/status")
        within = [one for one in self.registered if one.configuration == configuration]
        index, rules = next(
            ((at, one.rules) for at, one in enumerate(within) if one.webhook == webhook), (0, ())
        )
        operations: list[dict[str, Any]] = []
        for number in reversed(range(len(rules))):
            resources = list(rules[number].get("resources") or ())
            rest = [each for each in resources if each not in named]
            if rest == resources:
                continue
            place = f"/webhooks/{index}/rules/{number}"
            operations.append({"op": "test", "path": f"{place}/resources", "value": resources})
            operations.append(
                {"op": "replace", "path": f"{place}/resources", "value": rest}
                if rest
                else {"op": "remove", "path": place}
            )
        name = {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook}
        return [name, *operations] if operations else None

    def of_tool(self, actor: Actor) -> FixStep | None:
        """Return what makes a tool leave the field, or the object, to others."""
        found, key = self.found, _tool(actor)
        if key is None:
            return None
        tool = load_advice().tools[key]
        if found.detector == "recreation" and tool.kept_by:
            stanza = _yaml({"metadata": {"annotations": tool.kept_by}})
            return _step("not_deleted").fill(stanza=stanza, tool=tool.name, object=self.target)
        trial = self.trials.left_alone([actor])
        if key in _STANZAS:
            stanza = _yaml({"spec": _STANZAS[key](found)})
            return _step(key).fill(stanza=stanza, trial=trial, paths=", ".join(found.paths))
        return None if found.detector == "recreation" else self.of_manifest(actor, trial)

    def of_manifest(self, actor: Actor, trial: Trial) -> FixStep:
        """Return the step for who applies manifests by hand or from a pipeline."""
        command = ""
        if actor.field_manager in ("kubectl-client-side-apply", "kubectl"):
            command = self.command("kubectl", "apply", "edit-last-applied")
        text = _step("manifest_by_kubectl" if command else "manifest")
        if actor.field_manager == "helm":
            text = _step("chart")
        return text.fill(command, trial=trial, fields=self.fields or "the field", name=actor.name)

    def autoscaled(self, actors: Sequence[Actor]) -> Iterator[FixStep]:
        """Yield what ends a fight between an autoscaler and others."""
        scaler = next(filter(_is_autoscaler, actors), None)
        if scaler is not None:
            others = [one for one in actors if not _is_autoscaler(one)]
            names = " and ".join(one.name for one in others) or "whoever else sets it"
            trial = self.trials.left_alone(others) if others else None
            yield _step("autoscaler").fill(trial=trial, name=scaler.name, others=names)

    def of_writers(self, actors: Sequence[Actor]) -> Iterator[FixStep]:
        """Yield what the owners of the other writers change; for a fight, who owns the field."""
        plan = self.plan
        if plan.scope == "status":
            by_hand = [one for one in actors if _is_by_hand(one)]
            if by_hand:
                yield _step("correct_by_hand").fill(name=_names(by_hand))
            actors = [one for one in actors if one not in by_hand]
        others = [x for x in actors if not (plan.fights and _tool(x)) and not _is_autoscaler(x)]
        if not others or (plan.fights and len(others) < len(actors)):
            # What the tool leaves out is the other's from now on: nothing to change there.
            return
        names, how = _names(others), plan.writer
        if not plan.fights or len(others) == 1:
            yield _step("correct_writers").fill(name=names, how=how)
            return
        command, trial = self.command("genguard", "blame"), self.trials.left_alone(others)
        fields = self.fields or "the object"
        yield _step("choose_owner").fill(command, trial=trial, fields=fields, names=names, how=how)

    def patch(self, kind: str, name: str, form: str, patch: Any) -> str:
        """Return the command that patches a registration, or "" as `_command` does."""
        text = json.dumps(patch, separators=(",", ":"))
        words = ("kubectl", "patch", kind, name, f"--type={form}", "-p", text)
        return _command(self.found, *words) if _is_safe((name,)) else ""

    def command(self, *words: str, last: Iterable[str] = ()) -> str:
        """Return a command about the object, or ""."""
        namespace = self.found.subject.namespace
        return _command(
            self.found, *words, self.target, *(("-n", namespace) if namespace else ()), *last
        )


def _names(actors: Iterable[Actor]) -> str:
    return " and ".join(dict.fromkeys(one.name for one in actors))


def _is_restored(found: Finding) -> bool:
    """Whether enforcing puts back what is lost: an observedGeneration that was cleared.

    An older number is no cleared one, and who leaves the value as it was has not cleared it.
    """
    if not any(path.endswith(f"/{_OBSERVED}") for path in found.paths):
        return False
    if found.detector != "observed-generation-stalled":
        return True
    known = [one[_OBSERVED] for one in found.evidence if _OBSERVED in one]
    return not (known and known[-1]) and any(one.type == "webhook" for one in found.actors)


def _condition(found: Finding, scope: Scope) -> dict[str, str]:
    """Return a matchCondition that leaves out the status of a kind, or one object.

    A request has no subResource where it is about the object itself, and no name where the server
    is to make one. To read what is absent is an error, and with failurePolicy Fail an error refuses
    the write (apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go).
    """
    where = found.subject
    terms = [("request.resource.group", where.group), ("request.resource.resource", where.resource)]
    if scope == "status":
        terms.append(("request.subResource", "status"))
        name = f"not-status-of-{where.resource}"
    elif scope == "kind":
        name = f"not-{where.resource}"
    else:
        terms += [("request.namespace", where.namespace)] if where.namespace else []
        terms.append(("request.name", where.name))
        name = f"not-{where.resource}-{where.namespace}-{where.name}"
    expression = " || ".join(
        f"!has({term}) || {term} != {json.dumps(value)}"
        if term in _MAY_BE_ABSENT
        else f"{term} != {json.dumps(value)}"
        for term, value in terms
    )
    plain = _NOT_IN_A_NAME.sub("-", name.lower())[:_LONGEST_NAME].strip("-")
    return {"name": plain, "expression": expression}


def _tool(actor: Actor) -> ToolName | None:
    """Return what keeps objects as its manifests say, where the actor is such a tool."""
    names = {actor.field_manager, actor.name.rpartition(":")[2]}
    return next((key for key, one in load_advice().tools.items() if names & one.marks), None)


def _argo(found: Finding) -> dict[str, Any]:
    where = found.subject
    entry = {
        "group": where.group,
        "kind": kind_of(where.group, where.resource) or "*",
        "name": where.name,
        **({"namespace": where.namespace} if where.namespace else {}),
        "jsonPointers": list(found.paths),
    }
    synced = {"syncOptions": ["RespectIgnoreDifferences=true"]}
    return {"ignoreDifferences": [entry], "syncPolicy": synced}


def _kustomization(found: Finding) -> dict[str, Any]:
    where = found.subject
    kind = kind_of(where.group, where.resource)
    target = {"group": where.group, "kind": kind, "name": where.name, "namespace": where.namespace}
    given = {key: value for key, value in target.items() if value or key == "name"}
    removals = [{"op": "remove", "path": path} for path in found.paths]
    return {"patches": [{"target": given, "patch": _yaml(removals)}]}


def _helm_release(found: Finding) -> dict[str, Any]:
    where = found.subject
    kind = kind_of(where.group, where.resource)
    ignored = {
        "paths": list(found.paths),
        "target": {**({"kind": kind} if kind else {}), "name": where.name},
    }
    return {"driftDetection": {"mode": "enabled", "ignore": [ignored]}}


_STANZAS: Final[Mapping[str, Callable[[Finding], dict[str, Any]]]] = {
    "argo": _argo,
    "kustomization": _kustomization,
    "helm_release": _helm_release,
}
"""What is added to the spec of a tool's own object."""


def _is_autoscaler(actor: Actor) -> bool:
    return actor.name.rpartition(":")[2] in load_advice().autoscalers


def _is_by_hand(actor: Actor) -> bool:
    """Whether it is a person, or a script, with kubectl: there is no program to correct."""
    manager = actor.name if actor.type == "manager" else actor.field_manager
    return manager.startswith(BY_HAND)


def _field(pointer: str) -> str:
    return pointer[1:].replace("/", ".").replace("~1", "/").replace("~0", "~")


def _command(found: Finding, *words: str) -> str:
    """Return a line for a shell; "" where a name may be none: who forges a review chooses names."""
    where = found.subject
    safe = _is_safe((where.group, where.resource, where.namespace, where.name, *words))
    return shlex.join(words) if safe else ""


def _is_safe(names: Iterable[str]) -> bool:
    flags = ("-n", "-p", "--type=json", "--type=strategic")
    return all(one.isprintable() and (not one.startswith("-") or one in flags) for one in names)


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=False))


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and value.isascii() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
