"""The change that ends a loop: from a finding to ordered steps, with commands ready to copy.

Reads    a finding; where they are known, the registered webhooks, how genguard was installed, and
         the last writes of all objects
Result   only steps that apply: by the detector, by genguard's mode, by the type of the actors, by
         what they are (Argo CD, Flux, Helm, kubectl, an autoscaler), and by how sure it is. First
         what stops the damage, then what ends the cause. Nothing is to be changed for an actor
         that is only possible: then a step finds out who it is. Each step is tried on the last
         writes; one that would not have ended all of them comes last
Relies   on nothing of an object's content: names and paths alone

What to do, its words, commands and stanzas are in fix.yaml. A detector without a plan there gets
the plan for others, so a new one needs nothing here.

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
from itertools import islice
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

ScopeName = Literal["status", "object", "kind", "again"]
"""Which calls a webhook need not get any more."""
_NOT_KEPT: Final = Trial(not_tried="none of the last writes is remembered field by field")
_KEPT_BY_LEADER: Final = Trial(not_tried="the replica that leads remembers the last writes: ask it")
_MAY_BE_OF_OTHERS: Final = Trial(not_tried="a policy may have set the field")
_MOST_OBJECTS: Final = 2_000
"""Whose writes are searched for what else a step would change."""
_REPLICAS: Final = "/spec/replicas"
_OBSERVED: Final = "observedGeneration"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")
_ONLY_A_NAME: Final = re.compile(r"\{(\w+)\}")
_LONGEST_NAME: Final = 63
_WRITERS: Final = ("user", "manager")
"""Types of actors that send writes."""
_NO_HISTORIES: Final[Mapping[str, ObjectHistory]] = MappingProxyType({})


class Trials:
    """The steps of one finding, tried on the last writes."""

    def __init__(self, found: Finding, histories: Mapping[str, ObjectHistory] | None) -> None:
        """Take the histories of all objects, as History.snapshot returns them.

        histories  None where another replica judges, and so has them
        """
        self._untried: Final = _KEPT_BY_LEADER if histories is None else _NOT_KEPT
        self._histories: Final = histories or {}
        examples = (found.object,) if found.objects is None else found.objects.examples
        keys = (ObjectKey(*msgspec.structs.astuple(one)) for one in examples)
        self._names: Final = dict.fromkeys(map(history_name, keys))
        own = (self._histories[name] for name in self._names if name in self._histories)
        self._writes: Final[Sequence[Write]] = [write for one in own for write in one.writes]
        self._found: Final = found
        self._paths: Final = frozenset(found.paths)

    def not_called(self, scope: ScopeName, policy: str = "") -> Trial:
        """Try to call a webhook for less, or the policy that is named."""
        if policy:
            acted = [w for w in self._writes if policy in {one.name for one in w.policies}]
            return self._trial(acted, lambda w: self.leaves_out(scope, w))
        harmed = self._harmed(_by_webhooks)
        if scope == "again":
            return self._trial(harmed, lambda w: not self._harms(_changed_anew(w)))
        return self._trial(harmed, lambda w: self.leaves_out(scope, w), self._also(scope))

    def left_alone(self, actors: Collection[Actor]) -> Trial:
        """Try to have writers leave the fields of the finding to others."""
        harmed = self._harmed(_sent, actors)
        if any(one.policies for one in harmed):
            return _MAY_BE_OF_OTHERS
        return self._trial(harmed, lambda w: not any(map(self._is_fought_over(w), _sent(w))))

    def restored(self) -> Trial:
        """Try to restore each observedGeneration that is cleared, as genguard does enforcing."""
        harmed = self._harmed(_by_webhooks) or self._harmed(_sent, self._found.actors)
        return self._trial(harmed, _is_cleared)

    def leaves_out(self, scope: ScopeName, write: Write) -> bool:
        """Whether the webhook or policy is not called for a write any more: see `condition`."""
        if scope == "status":
            return write.subresource == "status"
        return scope == "kind" or write.object.name == self._found.subject.name

    def _trial(
        self, harmed: Sequence[Write], ends: Callable[[Write], bool], also: tuple[str, ...] = ()
    ) -> Trial:
        return Trial(sum(map(ends, harmed)), len(harmed), also) if harmed else self._untried

    def _harmed(
        self,
        changes: Callable[[Write], Iterable[Change]],
        actors: Collection[Actor] | None = None,
    ) -> list[Write]:
        """Return the writes in which a field of the finding is changed; those of actors alone."""
        mine = (w for w in self._writes if actors is None or any(_is_by(w, x) for x in actors))
        return [one for one in mine if self._harms(changes(one))]

    def _harms(self, changes: Iterable[Change]) -> bool:
        return any(map(self._is_in_paths, changes))

    def _is_in_paths(self, change: Change) -> bool:
        """Whether a change is of a field of the finding, or of what holds one and is empty now."""
        at = change.pointer
        return is_at_or_below(at, self._paths) or any(x.startswith(f"{at}/") for x in self._paths)

    def _is_fought_over(self, write: Write) -> Callable[[Change], bool]:
        """Return whether somebody else writes a field as well that is none of the finding."""
        others = [w for w in self._writes if w.requester.writer != write.requester.writer]
        theirs = {one.key for other in others for one in _sent(other)}
        return lambda one: one.key in theirs and not one.holds_time and not self._is_in_paths(one)

    def _also(self, scope: ScopeName) -> tuple[str, ...]:
        """Return which other fields webhooks changed in writes for which it is not called."""
        beside = () if scope == "object" else self._beside()
        found = []
        for where, writes in (
            ("in these writes", self._writes),
            ("in writes of other objects", beside),
        ):
            changes = [one for w in writes if self.leaves_out(scope, w) for one in _by_webhooks(w)]
            if lost := [one for one in changes if not self._is_in_paths(one)]:
                found.append(f"{field_names(lost)} {where}")
        return tuple(found)

    def _beside(self) -> Iterator[Write]:
        """Yield the last writes of other objects of the kind."""
        where = self._found.subject
        others = (
            one.writes
            for name, one in self._histories.items()
            if name not in self._names
            and one.writes
            and one.writes[0].kind[:2] == (where.group, where.resource)
        )
        return (write for writes in islice(others, _MOST_OBJECTS) for write in writes)


def _by_webhooks(write: Write) -> tuple[Change, ...]:
    return write.all_of_webhooks() or ()


def _sent(write: Write) -> tuple[Change, ...]:
    return *write.content.sent, *write.metadata.sent


def _changed_anew(write: Write) -> Iterable[Change]:
    """Return what the first call of webhooks changed of what an earlier write has left."""
    first = [*(write.content.webhook or ()), *(write.metadata.webhook or ())]
    return (one for one in first if one.before is not None)


def _is_by(write: Write, actor: Actor) -> bool:
    requester = write.requester
    return actor.name == (requester.manager if actor.type == "manager" else requester.user)


def _is_cleared(write: Write) -> bool:
    """Whether an observedGeneration is lost that was asked for, or stored before."""
    wanted = write.observed_asked, write.observed_before
    return any(any(restorations(one, write.observed_sent)) for one in wanted)


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


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ends the loops of one detector; fix.yaml explains the fields of all of these."""

    scope: ScopeName
    webhook: str
    writer: str
    fights: bool = False
    restores: bool = False
    harmless: bool = False


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls a webhook or policy need not get any more."""

    words: str
    name: str = ""
    terms: tuple[str, ...] = ()


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who keeps objects as manifests say."""

    marks: frozenset[str]
    name: str = ""
    kept_by: dict[str, str] = {}


class StepText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a step, its command and its stanza."""

    title: str
    text: str
    command: str = ""
    patch: dict[str, Any] | None = None
    stanza: dict[str, Any] | None = None
    lasting: bool = False
    not_tried: str = ""


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of fix.yaml."""

    plans: dict[str, Plan]
    policy: str
    scopes: dict[ScopeName, Scope]
    tools: dict[str, Tool]
    autoscalers: frozenset[str]
    steps: dict[str, StepText]

    def plan(self, detector: str) -> Plan:
        """Return the plan of a detector."""
        return self.plans.get(detector, self.plans["other"])

    def tool(self, actor: Actor) -> str:
        """Return what keeps objects as its manifests say, "" where the actor is no such tool."""
        names = {actor.field_manager, actor.name.rpartition(":")[2]}
        return next((key for key, one in self.tools.items() if names & one.marks), "")


@cache
def load_advice() -> Advice:
    """Read and check fix.yaml."""
    text = resources.files("genguard.detection").joinpath("fix.yaml").read_bytes()
    return msgspec.convert(load_document(text), Advice)


def with_fix(
    found: Finding,
    registered: Sequence[Registered] = (),
    installation: Installation = UNKNOWN_INSTALLATION,
    sample: bytes | None = None,
    histories: Mapping[str, ObjectHistory] | None = _NO_HISTORIES,
) -> Finding:
    """Return the finding with its steps, the first to take first, and what its sample shows.

    registered  the webhooks of the cluster, in their order; a rule is named only where it is known
    histories   the last writes of all objects (History.snapshot), on which the steps are tried;
                None where another replica judges, and so has them
    """
    diff = None if sample is None else shown_diff(sample)
    plan, trials = load_advice().plan(found.detector), Trials(found, histories)
    steps = [*_Steps(found, plan, registered, installation, trials).all()]
    steps.sort(key=lambda one: (_falls_short(one.trial), one.lasting))
    return msgspec.structs.replace(found, fix=tuple(steps), diff=diff)


def _falls_short(trial: Trial | None) -> bool:
    """Whether some of the writes would have done harm all the same."""
    return trial is not None and trial.of > 0 and not trial.is_whole


class _Steps(NamedTuple):
    """What the steps of one finding are made from."""

    found: Finding
    plan: Plan
    registered: Sequence[Registered]
    installation: Installation
    trials: Trials

    def step(
        self, key: str, trial: Trial | None = None, command: str = "", /, **names: Any
    ) -> FixStep:
        """Return a step of fix.yaml with these names filled in, and those of the finding."""
        text, where = load_advice().steps[key], self.found.subject
        kind = kind_of(where.group, where.resource)
        known = {
            "group": where.group,
            "kind": kind,
            "any_kind": kind or "*",
            "namespace": where.namespace,
            "object": where.name,
            "target": f"{where.resource_name}/{where.name}",
            "above": self.found.above,
            "paths": ", ".join(self.found.paths),
            "pointers": list(self.found.paths),
            "field": "".join(map(_field, self.found.paths[:1])),
            "fields": ", ".join(map(_field, self.found.paths)) or "the field",
            "owned": ", ".join(map(_field, self.found.paths)) or "the object",
            **names,
        }
        if text.patch is not None:
            known["patch"] = _json(_filled(text.patch, known))
        return FixStep(
            text.title.format_map(known),
            text.text.format_map(known),
            command or _command(text.command, known),
            "" if text.stanza is None else _yaml(_filled(text.stanza, known)),
            text.lasting,
            Trial(not_tried=text.not_tried) if text.not_tried else trial,
        )

    def all(self) -> Iterator[FixStep]:
        """Yield the steps that apply."""
        if self.found.above:
            yield self.step("end_cause" if self.found.caused_by else "end_whole")
        elif self.plan.harmless:
            name = "harmless_connected" if self.installation.connected else "harmless"
            yield self.step(name, what=self.plan.writer)
        else:
            yield from self.by_genguard()
            sure = [one for one in self.found.actors if one.confidence is not Confidence.POSSIBLE]
            yield from self.of_actors(sure) if sure else self.find_out()
            yield from self.by_hand(is_proven=bool(sure))

    def by_genguard(self) -> Iterator[FixStep]:
        """Yield what genguard does, or would do, for a value that it can restore."""
        enforcing, enforce, _ = self.installation
        if not (self.plan.restores and _is_restored(self.found)):
            return
        if enforcing is False:
            name = "enforce" if enforce else "enforce_by_flags"
            yield self.step(name, self.trials.restored(), enforce)
        elif enforcing and self.found.state == "open" and not self.found.repair:
            yield self.step("not_urgent")

    def find_out(self) -> Iterator[FixStep]:
        """Yield the step for a finding in which nobody is named with confidence."""
        is_webhook = any(one.type == "webhook" for one in self.found.actors)
        yield self.step("find_webhook" if is_webhook else "find_writer")

    def by_hand(self, *, is_proven: bool) -> Iterator[FixStep]:
        """Yield the step that puts a lost value back into the stored object."""
        name, state = "repair", self.found.state
        if not self.installation.enforcing and state == "open":
            name = "repair_after_others" if is_proven else "repair_lost_again"
        if self.found.repair and state != "resolved":
            yield self.step(name, None, self.found.repair)

    def of_actors(self, actors: Sequence[Actor]) -> Iterator[FixStep]:
        """Yield what is changed about those who are named with confidence."""
        writers = [one for one in actors if one.type in _WRITERS]
        yield from self.autoscaled(writers)
        for actor in actors:
            if actor.type not in _WRITERS:
                yield from self.of_other(actor)
        if self.plan.fights:
            for actor in writers:
                yield from self.of_tool(actor)
        yield from self.of_writers(writers)

    def of_other(self, actor: Actor) -> Iterator[FixStep]:
        """Yield what is changed about an actor that is no user."""
        name, how = actor.name, self.plan.webhook
        if actor.type == "webhook":
            yield self.of_webhook(name)
            name = name.partition("/")[2]
        elif actor.type == "policy":
            # It knows of no second call.
            planned: ScopeName = "object" if self.plan.scope == "again" else self.plan.scope
            scope, trial = self.scope(planned, name)
            yield self.step("policy", trial, name=name, **condition(self.found, scope))
            name, how = f"the policy {name}", load_advice().policy
        yield self.step("correct", name=name, how=how)

    def of_webhook(self, name: str) -> FixStep:
        """Return the step after which a webhook is called for less."""
        configuration, _, webhook = name.partition("/")
        scope, trial = self.scope(self.plan.scope)
        names = {"webhook": webhook, "configuration": configuration}
        if scope == "again":
            return self.step("called_once", trial, **names)
        if scope == "status" and (rules := self.without_rules(configuration, webhook)):
            return self.step("no_status_rule", trial, patch=_json(rules), **names)
        return self.step("not_called", trial, **names, **condition(self.found, scope))

    def scope(self, planned: ScopeName, policy: str = "") -> tuple[ScopeName, Trial]:
        """Return what is taken from a webhook or policy, and what came of trying that.

        The object, or the kind of many objects, where less does not end it: a kind may have no
        status of its own, and a webhook that changes its own work again does so in the next write
        as well.
        """
        widest: ScopeName = "object" if self.found.objects is None else "kind"
        is_of_status = self.found.subresource == "status"
        is_whole = planned == "object" or (planned == "status" and not is_of_status)
        scope = widest if is_whole else planned
        trial = self.trials.not_called(scope, policy)
        if _falls_short(trial):
            wider = self.trials.not_called(widest, policy)
            if wider.is_whole:
                return widest, wider
        return scope, trial

    def without_rules(self, configuration: str, webhook: str) -> list[dict[str, Any]]:
        """Return the JSON Patch that takes explicit rules for the status out; [] without any.

        Each is tested before: an index may be another one by now.
        """
        within = [one for one in self.registered if one.configuration == configuration]
        found = [(at, one) for at, one in enumerate(within) if one.webhook == webhook]
        rules = [(at, *each) for at, one in found[:1] for each in enumerate(one.match.rules)]
        status = {f"{self.found.subject.resource}/status", "*/status"}
        operations: list[dict[str, Any]] = []
        for index, number, rule in reversed(rules):
            named, at = list(rule.get("resources") or ()), f"/webhooks/{index}/rules/{number}"
            rest = [one for one in named if one not in status]
            if rest != named:
                path = f"{at}/resources"
                change = {"op": "replace", "path": path, "value": rest}
                operations.append({"op": "test", "path": path, "value": named})
                operations.append(change if rest else {"op": "remove", "path": at})
        if operations:
            path = f"/webhooks/{found[0][0]}/name"
            operations.insert(0, {"op": "test", "path": path, "value": webhook})
        return operations

    def of_tool(self, actor: Actor) -> Iterator[FixStep]:
        """Yield what makes a tool leave the field, or the object, to others."""
        advice = load_advice()
        key = advice.tool(actor)
        if key and self.found.detector != "recreation":
            removals = _yaml([{"op": "remove", "path": path} for path in self.found.paths])
            trial = self.trials.left_alone([actor])
            yield self.step(key, trial, name=actor.name, removals=removals)
        elif key and (kept_by := advice.tools[key].kept_by):
            yield self.step("not_deleted", tool=advice.tools[key].name, kept_by=kept_by)

    def autoscaled(self, actors: Sequence[Actor]) -> Iterator[FixStep]:
        """Yield what ends a fight between an autoscaler and others."""
        scaler = next(filter(_is_autoscaler, actors), None)
        if scaler is not None and self.plan.fights and _REPLICAS in self.found.paths:
            others = [one for one in actors if not _is_autoscaler(one)]
            names = " and ".join(one.name for one in others) or "whoever else sets it"
            trial = self.trials.left_alone(others) if others else None
            yield self.step("autoscaler", trial, name=scaler.name, others=names)

    def of_writers(self, actors: Sequence[Actor]) -> Iterator[FixStep]:
        """Yield what the owners of the other writers change; for a fight, who owns the field."""
        plan = self.plan
        if plan.scope == "status":
            by_hand = [one for one in actors if _is_by_hand(one)]
            if by_hand:
                yield self.step("correct_by_hand", name=_names(by_hand))
            actors = [one for one in actors if one not in by_hand]
        tool = load_advice().tool
        others = [x for x in actors if not (plan.fights and tool(x)) and not _is_autoscaler(x)]
        if not others or (plan.fights and len(others) < len(actors)):
            # What the tool leaves out is the other's from now on: nothing to change there.
            return
        is_shared = plan.fights and len(others) > 1
        trial = self.trials.left_alone(others) if is_shared else None
        name = "choose_owner" if is_shared else "correct_writers"
        yield self.step(name, trial, name=_names(others), how=plan.writer)


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


def condition(found: Finding, scope: ScopeName) -> dict[str, str]:
    """Return the scope in words, and name and expression of a matchCondition that leaves it out."""
    where, text = found.subject, load_advice().scopes[scope]
    names = {key: getattr(where, key) for key in ("group", "resource", "namespace", "name")}
    name = _NOT_IN_A_NAME.sub("-", text.name.format_map(names).lower())
    values = {key: json.dumps(value) for key, value in names.items() if value or key == "group"}
    terms = [one for one in text.terms if "{namespace}" not in one or where.namespace]
    return {
        "scope": text.words,
        "condition": name[:_LONGEST_NAME].strip("-"),
        "expression": " || ".join(one.format_map(values) for one in terms),
    }


def _is_autoscaler(actor: Actor) -> bool:
    return actor.name.rpartition(":")[2] in load_advice().autoscalers


def _is_by_hand(actor: Actor) -> bool:
    """Whether it is a person, or a script, with kubectl: there is no program to correct."""
    manager = actor.name if actor.type == "manager" else actor.field_manager
    return manager.startswith(BY_HAND)


def _field(pointer: str) -> str:
    return pointer[1:].replace("/", ".").replace("~1", "/").replace("~0", "~")


def _filled(template: Any, names: Mapping[str, Any]) -> Any:
    """Return a template with its names filled in; what is empty then is left out of objects."""
    if isinstance(template, dict):
        filled = {key: _filled(one, names) for key, one in template.items()}
        return {key: one for key, one in filled.items() if one != ""}
    if isinstance(template, list):
        return [_filled(one, names) for one in template]
    alone = _ONLY_A_NAME.fullmatch(template)
    return names[alone[1]] if alone else template.format_map(names)


def _command(template: str, names: Mapping[str, Any]) -> str:
    """Return a line for a shell, in which an option without a value is left out.

    "" where a name may be an option, or steer a terminal: who forges a review chooses names.
    """
    words: list[str] = []
    for template_word in template.split():
        word = template_word.format_map(names)
        if word != template_word and (word.startswith("-") or not word.isprintable()):
            return ""
        if word:
            words.append(word)
        elif words[-1].startswith("-"):
            words.pop()
    return shlex.join(words)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=False))


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and value.isascii() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
