"""The change that ends a loop: from a finding to ordered steps, with commands ready to copy.

Reads    a finding; where they are known, the registered webhooks, how genguard was installed, and
         the last writes of all objects
Result   only steps that apply: by the detector, by genguard's mode, by the type of the actors, by
         what they are (Argo CD, Flux, Helm, kubectl, an autoscaler), and by how sure it is. First
         what stops the damage, then what ends the cause. Nothing is to be changed for an actor
         that is only possible: then a step finds out who it is. Each step is tried on the last
         writes (trial.py); one that would not have ended all of them comes last
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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    trials = Trials(found, histories)
    steps = list(_steps(found, registered, installation, trials))
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


def _steps(
    found: Finding, registered: Sequence[Registered], installation: Installation, trials: Trials
) -> Iterator[FixStep]:
    if found.above:
        command = f"genguard explain finding/{found.above}"
        text = _step("end_cause") if found.caused_by else _step("end_whole")
        yield text.fill(command, cause=found.above)
        return
    plan = load_advice().plan(found.detector)
    if plan.harmless:
        text = _step("harmless_connected") if installation.connected else _step("harmless")
        yield text.fill(what=plan.writer)
        return
    if plan.restores and _is_restored(found):
        yield from _by_genguard(found, installation, trials)
    sure = [one for one in found.actors if one.confidence is not Confidence.POSSIBLE]
    if sure:
        writers = [one for one in sure if one.type in _WRITERS]
        if plan.fights and _REPLICAS in found.paths:
            yield from _autoscaled(writers, trials)
        others = [one for one in sure if one.type not in _WRITERS]
        yield from _of_others(found, plan, others, registered, trials)
        if plan.fights:
            yield from filter(None, (_of_tool(found, one, trials) for one in writers))
        yield from _of_writers(found, plan, writers, trials)
    else:
        yield _find_out(found)
    if found.repair and found.state != "resolved":
        yield _by_hand(found, installation, is_proven=bool(sure))


def _by_genguard(found: Finding, installation: Installation, trials: Trials) -> Iterator[FixStep]:
    """Yield what genguard does, or would do, for a value that it can restore."""
    if installation.enforcing is False:
        text = _step("enforce") if installation.enforce else _step("enforce_by_flags")
        yield text.fill(installation.enforce, trial=trials.restored())
    elif installation.enforcing and found.state == "open" and not found.repair:
        yield _step("not_urgent").fill()


def _by_hand(found: Finding, installation: Installation, *, is_proven: bool) -> FixStep:
    """Return the step that puts a lost value back into the stored object."""
    text = _step("repair")
    if not installation.enforcing and found.state == "open":
        text = _step("repair_after_others") if is_proven else _step("repair_lost_again")
    return text.fill(found.repair)


def _of_others(
    found: Finding,
    plan: Plan,
    actors: Iterable[Actor],
    registered: Sequence[Registered],
    trials: Trials,
) -> Iterator[FixStep]:
    """Yield what is changed about actors that are no users."""
    for actor in actors:
        if actor.type == "webhook":
            yield _of_webhook(found, plan, actor.name, registered, trials)
            webhook = actor.name.partition("/")[2]
            yield _step("correct").fill(name=webhook, how=plan.webhook)
        elif actor.type == "policy":
            yield _of_policy(found, plan, actor.name, trials)
            name, how = f"the policy {actor.name}", load_advice().policy
            yield _step("correct").fill(name=name, how=how)
        else:
            yield _step("correct").fill(name=actor.name, how=plan.webhook)


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


def _find_out(found: Finding) -> FixStep:
    """Return the step for a finding in which nobody is named with confidence."""
    target = [_target(found), *_namespace(found)]
    if any(one.type == "webhook" for one in found.actors):
        return _step("find_webhook").fill(_command(found, "genguard", "trace", *target))
    fields = [_field(path) for path in found.paths[:1]]
    return _step("find_writer").fill(_command(found, "genguard", "blame", *target, *fields))


def _of_webhook(
    found: Finding, plan: Plan, name: str, registered: Sequence[Registered], trials: Trials
) -> FixStep:
    """Return the step after which a webhook is called for less."""
    configuration, _, webhook = name.partition("/")
    scope, trial = _scope(found, plan, trials)
    known = _registered(configuration, webhook, registered)
    patch: Any = None
    if scope == "status" and known is not None:
        patch = _without_rules(*known, found.subject.resource)
    form = "strategic"
    if patch is not None:
        text, form = _step("no_status_rule"), "json"
    elif scope == "again":
        patch = {"webhooks": [{"name": webhook, "reinvocationPolicy": "Never"}]}
        text = _step("called_once")
    else:
        patch = {"webhooks": [{"name": webhook, "matchConditions": [_condition(found, scope)]}]}
        text = _step("not_called")
    return text.fill(
        _patched(found, "mutatingwebhookconfiguration", configuration, form, patch),
        trial=trial,
        webhook=webhook,
        configuration=configuration,
        scope=load_advice().scopes[scope],
    )


def _scope(found: Finding, plan: Plan, trials: Trials, policy: str = "") -> tuple[Scope, Trial]:
    """Return what is taken from a webhook or policy, and what came of trying that.

    The object, or the kind of many objects, where less does not end it: a kind may have no status
    of its own, and a webhook that changes its own work again does so in the next write as well.

    policy  the name of the policy; "" of a webhook
    """
    widest: Scope = "object" if found.objects is None else "kind"
    is_whole = plan.scope == "object" or (plan.scope == "status" and found.subresource != "status")
    scope = widest if is_whole else plan.scope
    trial = trials.not_called(scope, policy=policy)
    if trial.of and not trial.is_whole:
        wider = trials.not_called(widest, policy=policy)
        if wider.is_whole:
            return widest, wider
    return scope, trial


def _registered(
    configuration: str, webhook: str, registered: Sequence[Registered]
) -> tuple[int, Registered] | None:
    """Return a webhook with its index in its configuration."""
    within = [one for one in registered if one.configuration == configuration]
    return next(((i, one) for i, one in enumerate(within) if one.webhook == webhook), None)


def _without_rules(index: int, one: Registered, resource: str) -> list[dict[str, Any]] | None:
    """Return the JSON Patch that takes explicit rules for the status out; None without any.

    Each is tested before: an index may be another one by now.
    """
    named = (f"{resource}/status", "*/status")
    operations: list[dict[str, Any]] = []
    for number in reversed(range(len(one.rules))):
        resources = list(one.rules[number].get("resources") or ())
        if not any(each in named for each in resources):
            continue
        place = f"/webhooks/{index}/rules/{number}"
        operations.append({"op": "test", "path": f"{place}/resources", "value": resources})
        rest = [each for each in resources if each not in named]
        if rest:
            path = f"{place}/resources"
            operations.append({"op": "replace", "path": path, "value": rest})
        else:
            operations.append({"op": "remove", "path": place})
    if not operations:
        return None
    name = {"op": "test", "path": f"/webhooks/{index}/name", "value": one.webhook}
    return [name, *operations]


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


def _of_policy(found: Finding, plan: Plan, name: str, trials: Trials) -> FixStep:
    """Return the step after which a policy acts on less."""
    if plan.scope == "again":  # which a policy does not know
        plan = msgspec.structs.replace(plan, scope="object")
    scope, trial = _scope(found, plan, trials, name)
    patch = {"spec": {"matchConditions": [_condition(found, scope)]}}
    command = _patched(found, "mutatingadmissionpolicy", name, "strategic", patch)
    words = load_advice().scopes[scope]
    return _step("policy").fill(command, trial=trial, name=name, scope=words)


def _tool(actor: Actor) -> ToolName | None:
    """Return what keeps objects as its manifests say, where the actor is such a tool."""
    names = {actor.field_manager, actor.name.rpartition(":")[2]}
    return next((key for key, one in load_advice().tools.items() if names & one.marks), None)


def _of_tool(found: Finding, actor: Actor, trials: Trials) -> FixStep | None:
    """Return what makes a tool leave the field, or the object, to others."""
    key = _tool(actor)
    if key is None:
        return None
    tool = load_advice().tools[key]
    if found.detector == "recreation" and tool.kept_by:
        stanza = _yaml({"metadata": {"annotations": tool.kept_by}})
        return _step("not_deleted").fill(stanza=stanza, tool=tool.name, object=_target(found))
    trial = trials.left_alone([actor])
    if key == "argo":
        return _step("argo").fill(stanza=_argo(found), trial=trial)
    if key == "kustomization":
        return _step("kustomization").fill(
            stanza=_kustomization(found), trial=trial, paths=", ".join(found.paths)
        )
    if key == "helm_release":
        return _step("helm_release").fill(stanza=_helm_release(found), trial=trial)
    return None if found.detector == "recreation" else _of_manifest(found, actor, trial)


def _argo(found: Finding) -> str:
    where = found.subject
    entry = {
        "group": where.group,
        "kind": kind_of(where.group, where.resource) or "*",
        "name": where.name,
        **({"namespace": where.namespace} if where.namespace else {}),
        "jsonPointers": list(found.paths),
    }
    synced = {"syncOptions": ["RespectIgnoreDifferences=true"]}
    return _yaml({"spec": {"ignoreDifferences": [entry], "syncPolicy": synced}})


def _kustomization(found: Finding) -> str:
    where = found.subject
    kind = kind_of(where.group, where.resource)
    removals = [{"op": "remove", "path": path} for path in found.paths]
    target = {"group": where.group, "kind": kind, "name": where.name, "namespace": where.namespace}
    given = {key: value for key, value in target.items() if value or key == "name"}
    return _yaml({"spec": {"patches": [{"target": given, "patch": _yaml(removals)}]}})


def _helm_release(found: Finding) -> str:
    where = found.subject
    kind = kind_of(where.group, where.resource)
    target = {**({"kind": kind} if kind else {}), "name": where.name}
    ignored = {"paths": list(found.paths), "target": target}
    return _yaml({"spec": {"driftDetection": {"mode": "enabled", "ignore": [ignored]}}})


def _of_manifest(found: Finding, actor: Actor, trial: Trial) -> FixStep:
    """Return the step for who applies manifests by hand or from a pipeline."""
    text, command = _step("manifest"), ""
    if actor.field_manager in ("kubectl-client-side-apply", "kubectl"):
        edit = ("kubectl", "apply", "edit-last-applied", _target(found), *_namespace(found))
        command = _command(found, *edit)
    if actor.field_manager == "helm":
        text = _step("chart")
    elif command:
        text = _step("manifest_by_kubectl")
    fields = ", ".join(map(_field, found.paths)) or "the field"
    return text.fill(command, trial=trial, fields=fields, name=actor.name)


def _is_autoscaler(actor: Actor) -> bool:
    return actor.name.rpartition(":")[2] in load_advice().autoscalers


def _is_by_hand(actor: Actor) -> bool:
    """Whether it is a person, or a script, with kubectl: there is no program to correct."""
    manager = actor.name if actor.type == "manager" else actor.field_manager
    return manager.startswith(BY_HAND)


def _autoscaled(actors: Sequence[Actor], trials: Trials) -> Iterator[FixStep]:
    scaler = next(filter(_is_autoscaler, actors), None)
    if scaler is not None:
        others = [one for one in actors if not _is_autoscaler(one)]
        names = " and ".join(one.name for one in others) or "whoever else sets it"
        trial = trials.left_alone(others) if others else None
        yield _step("autoscaler").fill(trial=trial, name=scaler.name, others=names)


def _of_writers(
    found: Finding, plan: Plan, actors: Sequence[Actor], trials: Trials
) -> Iterator[FixStep]:
    """Yield what the owners of the other writers change; for a fight, who owns the field."""
    if plan.scope == "status":
        by_hand = [one for one in actors if _is_by_hand(one)]
        if by_hand:
            names = " and ".join(dict.fromkeys(one.name for one in by_hand))
            yield _step("correct_by_hand").fill(name=names)
        actors = [one for one in actors if one not in by_hand]
    others = [one for one in actors if not (plan.fights and _tool(one)) and not _is_autoscaler(one)]
    names = " and ".join(dict.fromkeys(one.name for one in others))
    has_tool = len(others) < len(actors)
    if not others or (plan.fights and has_tool):
        # What the tool leaves out is the other's from now on: nothing to change there.
        return
    if plan.fights and len(others) > 1:
        fields = ", ".join(map(_field, found.paths)) or "the object"
        command = _command(found, "genguard", "blame", _target(found), *_namespace(found))
        yield _step("choose_owner").fill(
            command,
            trial=trials.left_alone(others),
            fields=fields,
            names=names,
            how=plan.writer,
        )
        return
    yield _step("correct_writers").fill(name=names, how=plan.writer)


def _target(found: Finding) -> str:
    return f"{found.subject.resource_name}/{found.subject.name}"


def _namespace(found: Finding) -> tuple[str, ...]:
    return ("-n", found.subject.namespace) if found.subject.namespace else ()


def _field(pointer: str) -> str:
    return pointer[1:].replace("/", ".").replace("~1", "/").replace("~0", "~")


def _patched(found: Finding, kind: str, name: str, form: str, patch: Any) -> str:
    text = json.dumps(patch, separators=(",", ":"))
    if not _is_safe((name,)):
        return ""
    return _command(found, "kubectl", "patch", kind, name, f"--type={form}", "-p", text)


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
