"""The change that ends a loop: from a finding to ordered steps, with commands ready to copy.

Reads    a finding; where they are known, the registered webhooks, how genguard was installed, and
         the last writes of all objects
Result   only steps that apply, by the list in fix.yaml: by the detector, by genguard's mode, by the
         type of the actors, by what they are (Argo CD, an autoscaler), and by how sure it is. First
         what stops the damage, then what ends the cause, and last another mode of genguard
Relies   on nothing of an object's content: names and paths alone

A trial says in how many of the writes that do damage the step would have ended it, and what else it
would have changed. For a webhook, a write does damage if webhooks changed a field of the finding in
it; for a policy, which is not seen at work, if the policy acted on it; for a writer, if it set such
a field. A trial relies on the next writes being like the last ones. Nothing is written for it.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import msgspec
import yaml
from msgspec.structs import replace

from genguard.admission.matching import Registration
from genguard.detection.changes import Change
from genguard.detection.damage import Damage
from genguard.detection.finding import Actor, Confidence, Finding, FixStep, FoundObject, Trial
from genguard.detection.history import ObjectHistory, history_name
from genguard.detection.sample import field_names, is_at_or_below, shown_diff
from genguard.detection.write import BY_HAND, MANAGER, Write
from genguard.generation.table import kind_of
from genguard.objects.fields import from_pointer, to_field_path
from genguard.objects.observed import generation_number, restorations
from genguard.objects.shown import few, json_line
from genguard.shipped import shipped

ScopeName = Literal["status", "object", "kind", "again", "operation", "setting"]
"""Which calls a webhook need not get any more."""
_NOT_KEPT: Final = Trial(not_tried="none of the last writes is remembered field by field")
_KEPT_BY_LEADER: Final = Trial(not_tried="the replica that leads remembers the last writes: ask it")
_MAY_BE_OF_OTHERS: Final = Trial(not_tried="a policy may have set the field")
_MOST_OBJECTS: Final = 2_000
"""Whose writes are searched for what else a step would change."""
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")
_ONLY_A_NAME: Final = re.compile(r"\{([\w.]+)\}")
_LONGEST_NAME: Final = 63
_GENERATED: Final = re.compile(
    r"^(pods|replicasets)/.*-[bcdf-hj-np-tv-xz24-9]{5,10}$|-(?=[a-z]*\d)[bcdf-hj-np-tv-xz24-9]{5,10}$|-$"
)
"""A name that is made, or what it begins with (apimachinery pkg/util/rand/rand.go:alphanums).

A word may have no vowels."""
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:(?!kube-)([a-z0-9-]+):([a-z0-9.-]+)")
_INDEX: Final = re.compile(r"/\d+(?=/|$)")
_CALLED: Final = ("webhook", "policy")
"""Types of actors that the API server calls; all others send writes."""
_AUTOSCALER: Final = "autoscaler"
_TOGETHER: Final = (_AUTOSCALER, "by_hand", "program")
"""All writers of one of these kinds are the subject of one step."""
_MODE: Final = "mode"
_CEL_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_CEL_WORDS: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    )
)
"""No field may be selected by these: cel-spec doc/langdef.md, "Syntax"."""
_STOPS: Final = " A command stops what runs as {}, with all that it does, until it is corrected."
_BUILT_IN: Final = frozenset({"kube-controller-manager", "kube-scheduler", "kubelet"})
"""Field managers of what comes with a cluster: by default that is the name of the program."""
_NO_ACTORS: Final = ("finding", "known", "object", _MODE)
_Names = dict[str, Any]
"""What the words of steps name, and `when` asks of: `field`, `found.above`."""
_Tried = Callable[[], Trial | None]


class Trials:
    """Tries the steps of one finding on the last writes."""

    def __init__(self, found: Finding, histories: Mapping[str, ObjectHistory] | None) -> None:
        """Take the histories of all objects; None where another replica has them."""
        self._untried: Final = _KEPT_BY_LEADER if histories is None else _NOT_KEPT
        self._histories: Final = histories or {}
        examples = (found.object,) if found.objects is None else found.objects.examples
        self._names: Final = dict.fromkeys(map(history_name, examples))
        own = (self._histories[name] for name in self._names if name in self._histories)
        self._writes: Final[Sequence[Write]] = [write for past in own for write in past.writes]
        self._found: Final = found
        self._paths: Final = frozenset(found.paths)
        self._affected: Final = [w for w in self._writes if self._affects(w.of_webhooks())]
        """The writes in which webhooks changed a field of the finding."""

    def not_called(self, scope: ScopeName, policy: str = "") -> Trial:
        """Try to call a webhook for less, or the policy that is named."""
        if scope == "again":
            # The first call still changes the work of an earlier write.
            return self._trial(
                self._affected, lambda w: not self._affects(_replaced(w, again=False))
            )
        acted = [w for w in self._writes if any(acting.name == policy for acting in w.policies)]
        affected, also = (acted, ()) if policy else (self._affected, self._also(scope))
        return self._trial(affected, self._left_out(scope), also)

    def _left_out(self, scope: ScopeName) -> Callable[[Write], bool]:
        if scope == "setting":
            return lambda w: self._affects(_replaced(w))
        return partial(leaves_out, scope, self._found.subject, self.operation())

    def left_alone(self, actors: Collection[Actor]) -> Trial | None:
        """Try to have writers leave the fields of the finding to others; None without writers."""
        affected = self._sent_by(actors)
        if any(write.policies for write in affected):
            return _MAY_BE_OF_OTHERS
        return self._trial(affected, lambda w: not self._fights_more(w)) if actors else None

    def operation(self) -> str:
        """Return the operation of the writes that do damage; without any, the likely operation."""
        likely = "UPDATE" if self._found.subject.uid else "CREATE"
        seen = {write.operation.value for write in self._affected} or {likely}
        return seen.pop() if len(seen) == 1 else ""

    def lacks(self, actors: Collection[Actor]) -> bool:
        """Whether the writers may have sent none of the fields: they took all away, or item 0."""
        sent, firsts = self._set_by(actors), frozenset(f"{path}/0" for path in self._paths)
        pointers = [change.pointer for change in sent]
        return all(change.removed for change in sent) and any(
            pointer in self._paths or is_at_or_below(pointer, firsts) for pointer in pointers
        )

    def stays(self, actor: Actor) -> tuple[bool, bool, int]:
        """Return how hard it is for a writer to give way: one that always asks for the same can."""
        trial, values = self.left_alone([actor]), {(x.key, x.after) for x in self._set_by([actor])}
        is_program = actor.type == "manager" and actor.name in _BUILT_IN
        is_built_in = is_program or "kube-system:" in actor.name
        return is_built_in, bool(trial and trial.ended < trial.of), len(values)

    def _set_by(self, actors: Iterable[Actor]) -> list[Change]:
        sent = chain.from_iterable(map(_sent, self._sent_by(actors)))
        return list(filter(self._is_in_paths, sent))

    def restored(self) -> Trial:
        """Try to restore each observedGeneration that is cleared, as genguard does enforcing."""
        return self._trial(self._affected or self._sent_by(self._found.actors), _is_cleared)

    def _trial(
        self, affected: Sequence[Write], ends: Callable[[Write], bool], also: tuple[str, ...] = ()
    ) -> Trial:
        return Trial(sum(map(ends, affected)), len(affected), also) if affected else self._untried

    def _sent_by(self, actors: Iterable[Actor]) -> list[Write]:
        """Return the writes in which actors set a field of the finding."""
        users = {f"{MANAGER if actor.type == 'manager' else ''}{actor.name}" for actor in actors}
        by_them = (write for write in self._writes if write.requester.user in users)
        return [write for write in by_them if self._affects(_sent(write))]

    def _affects(self, changes: Iterable[Change]) -> bool:
        return any(map(self._is_in_paths, changes))

    def _is_in_paths(self, change: Change) -> bool:
        """Whether a change is of a field of the finding, or of what holds one and is empty now."""
        at = change.pointer
        is_there = any(is_at_or_below(x, self._paths) for x in (at, _INDEX.sub("/*", at)))
        return is_there or any(x.startswith(f"{at}/") for x in self._paths)

    def _fights_more(self, write: Write) -> bool:
        """Whether it sets a field that somebody else sets as well, and that is none of these."""
        others = [w for w in self._writes if w.requester.writer != write.requester.writer]
        theirs = {change.key for other in others for change in _sent(other)}
        mine = (change for change in _sent(write) if change.key in theirs and not change.holds_time)
        return not all(map(self._is_in_paths, mine))

    def _also(self, scope: ScopeName) -> tuple[str, ...]:
        """Return which other fields webhooks changed in writes for which it is not called."""
        subject = self._found.subject
        others = (
            history.writes
            for name, history in self._histories.items()
            if scope != "object" and name not in self._names and history.writes
            if history.writes[0].kind[:2] == (subject.group, subject.resource)
        )
        beside = chain.from_iterable(islice(others, _MOST_OBJECTS))
        found = []
        for where, writes in (("these writes", self._writes), ("writes of other objects", beside)):
            left_out = filter(self._left_out(scope), writes)
            changes = chain.from_iterable(map(Write.of_webhooks, left_out))
            if lost := [change for change in changes if not self._is_in_paths(change)]:
                found.append(f"{field_names(lost, subject)} in {where}")
        return tuple(found)


def leaves_out(scope: ScopeName, subject: FoundObject, operation: str, write: Write) -> bool:
    """Whether the webhook or policy is not called for a write any more: see `condition`."""
    is_status, is_subject = write.subresource == "status", write.object.name == subject.name
    known = {"status": is_status, "operation": write.operation == operation, "kind": True}
    return known.get(scope, is_subject)


def _sent(write: Write) -> tuple[Change, ...]:
    return *write.content.sent, *write.metadata.sent


def _replaced(write: Write, *, again: bool = True) -> Iterable[Change]:
    """Return what webhooks changed, or took away, of what was there: see `Write.of_webhooks`."""
    return (change for change in write.of_webhooks(again=again) if not change.added)


def _is_cleared(write: Write) -> bool:
    """Whether an observedGeneration is lost that was asked for, or stored before."""
    wanted = write.observed_asked, write.observed_before
    return any(any(restorations(observed, write.observed_sent)) for observed in wanted)


class Installation(NamedTuple):
    """How genguard runs, as far as a step depends on it.

    enforcing  whether it repairs; None where that is not known, as in an audit log
    enforce    the command that makes it enforcing, with all else as it is; "" where none is known
    connected  whether it knows the version of the cluster by itself; None where that is not known
    """

    enforcing: bool | None = None
    enforce: str = ""
    connected: bool | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ends the loops of one detector; fix.yaml explains the fields of all of these."""

    scope: ScopeName
    webhook: str
    writer: str
    manifest: str = ""
    custom: str = ""
    fights: bool = False
    restores: bool = False
    harmless: bool = False


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls a webhook or policy need not get any more."""

    words: str
    name: str = ""
    terms: tuple[str, ...] = ()


class StepText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step: when it applies, its words, its command and its stanza."""

    title: str
    text: str
    when: tuple[str, ...] = ()
    command: str = ""
    patch: Any = ""
    stanza: dict[str, Any] = {}
    lasting: bool = False
    tried: bool = False
    not_tried: str = ""

    def applies(self, names: _Names) -> bool:
        """Whether all that it asks for is so."""
        asked = ((term.removeprefix("not "), term.startswith("not ")) for term in self.when)
        return all(bool(_value(name, names)) is not is_denied for name, is_denied in asked)

    def filled(self, names: _Names, tried: _Tried) -> FixStep:
        """Return the step with names filled in."""
        names = names | {"patch": json_line(_filled(self.patch, names))}
        command = _command(self.command, names)
        is_tried = self.tried and bool(command or self.stanza)
        return FixStep(
            self.title.format_map(names),
            self.text.format_map(names),
            command,
            _yaml(_filled(self.stanza, names)) if self.stanza else "",
            self.lasting,
            tried() if is_tried else Trial(not_tried=self.not_tried) if self.not_tried else None,
        )


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of fix.yaml."""

    plans: dict[str, Plan]
    scopes: dict[ScopeName, Scope]
    tools: dict[str, frozenset[str]]
    repairs: dict[str, str]
    stops: dict[str, str]
    steps: dict[str, tuple[StepText, ...]]

    def plan(self, detector: str) -> Plan:
        """Return the plan of a detector."""
        return self.plans.get(detector, self.plans["other"])


def load_advice() -> Advice:
    """Read and check fix.yaml."""
    return shipped("genguard.detection", "fix.yaml", Advice)


def with_fix(
    found: Finding,
    registered: Sequence[Registration] = (),
    installation: Installation | None = None,
    sample: bytes | None = None,
    histories: Mapping[str, ObjectHistory] | None = MappingProxyType({}),
) -> Finding:
    """Return the finding with its steps, the smallest first, and what its sample shows.

    registered  the webhooks of the cluster, in their order; a rule is named only where it is known
    histories   the last writes of all objects (History.snapshot), on which the steps are tried;
                None where another replica has them
    """
    advice = load_advice()
    about = _About(found, advice.plan(found.detector), registered, Trials(found, histories))
    known = about.known(installation or Installation())
    steps = [
        (kind == _MODE, text.filled(known | names, tried))
        for kind, texts in advice.steps.items()
        for names, tried in about.subjects(kind)
        for text in texts
        if text.applies(known | names)
    ]
    steps.sort(key=lambda step: (step[0], _falls_short(step[1].trial), step[1].lasting))
    fix = tuple(step for _, step in steps)
    return replace(found, fix=fix, diff=None if sample is None else shown_diff(sample))


def _falls_short(trial: Trial | None) -> bool:
    return trial is not None and trial.ended < trial.of


class _About(NamedTuple):
    """What the steps of one finding are made from."""

    found: Finding
    plan: Plan
    registered: Sequence[Registration]
    trials: Trials

    @property
    def sure(self) -> list[Actor]:
        """Those who are named with confidence, where somebody has to change something."""
        is_own = not (self.found.above or self.plan.harmless)
        possible = Confidence.POSSIBLE
        return [actor for actor in self.found.actors if is_own and actor.confidence is not possible]

    def known(self, installation: Installation) -> _Names:
        """Return what the words of steps name of the finding, and what `when` asks of it."""
        found, plan, where = self.found, self.plan, self.found.subject
        kind = kind_of(where.group, where.resource)
        pointers = found.paths
        fields = [to_field_path(from_pointer(pointer)) for pointer in pointers]
        indexed = [pointer for pointer in pointers if _INDEX.search(pointer)]
        paths = map(from_pointer, indexed)
        jq = ("".join("[]?" if x.isdigit() else f".{json_line(x)}" for x in path) for path in paths)
        since = [f" (Kubernetes {x['since']} or newer)" for x in found.evidence if "since" in x]
        writer = plan.writer if kind or not plan.custom else f"{plan.writer} {plan.custom}"
        manifest, webhook = plan.manifest or writer, plan.webhook.format(newer="".join(since[-1:]))
        is_open, is_own = found.state == "open", not (found.above or plan.harmless)
        sure = self.sure
        return {
            "found": found,
            "plan": replace(plan, webhook=webhook, writer=writer, manifest=manifest),
            "genguard": installation,
            "where": where,
            "target": f"{where.resource_name}/{where.name}",
            "kind": kind,
            "any_kind": kind or "*",
            "paths": ", ".join(pointers),
            "pointers": pointers,
            "plain": [pointer for pointer in pointers if pointer not in indexed],
            "queries": list(dict.fromkeys(jq)),
            "field": "".join(fields[:1]),
            "fields": ", ".join(fields) or "the field",
            "owned": ", ".join(fields) or "the object",
            "watching": installation.enforcing is False,
            "open": is_open,
            "again": is_open and not installation.enforcing,
            "restored": is_own and plan.restores and _is_restored(found),
            "lost": is_own and found.state != "resolved" and found.repair,
            "unknown": is_own and not sure,
            "by_webhook": any(actor.type == "webhook" for actor in found.actors),
            "recreation": found.detector == "recreation",
            "aks": any("admissionsenforcer" in (actor.name, actor.field_manager) for actor in sure),
            "rancher": any(
                pointer.endswith("/field.cattle.io~1publicEndpoints") for pointer in pointers
            ),
            "issued": plan.fights and any(pointer.endswith("/caBundle") for pointer in pointers),
        }

    def subjects(self, kind: str) -> Iterator[tuple[_Names, _Tried]]:
        """Yield names for the words of steps of a kind, and their trial, for each actor."""
        if kind in _NO_ACTORS:
            yield {}, self.trials.restored
            return
        mine = [actor for actor in self.sure if self._kind(actor) == kind]
        if kind in _CALLED:
            yield from map(self._called, mine)
            return
        writers = [actor for actor in self.sure if actor.type not in _CALLED]
        kinds = {self._kind(writer) for writer in writers}
        fought = self.plan.fights and len(writers) > 1
        stays = {writer.name: self.trials.stays(writer) for writer in writers}
        mine.sort(key=lambda writer: fought and stays[writer.name])
        is_joint = mine and kind in _TOGETHER and not (fought and kind == "program")
        for at, who in enumerate([mine] if is_joint else [[actor] for actor in mine]):
            others = [writer for writer in writers if writer not in who]
            stop = _stop_command(who[0])
            names = {
                "name": _joined(who),
                "others": _joined(others) or "whoever else sets it",
                "fought": fought,
                "scaled": fought and _AUTOSCALER in kinds and "/spec/replicas" in self.found.paths,
                "first": not at and kinds <= {"program", "keeper"},
                "steady": all(stays[who[0].name][2] < stays[other.name][2] for other in others),
                "built_in": stays[who[0].name][0],
                "beside_built_in": any(stays[other.name][0] for other in others),
                "deletes": who[0] is self.found.actors[0],
                "lacks": self.trials.lacks(who),
                "stop": stop,
                "stops": _STOPS.format(_joined(who)) if stop else "",
                "removals": _yaml([{"op": "remove", "path": path} for path in self.found.paths]),
            }
            yield names, partial(self.trials.left_alone, others if kind == _AUTOSCALER else who)

    def _kind(self, actor: Actor) -> str:
        """Return whose steps are those of an actor."""
        if actor.type in _CALLED:
            return actor.type
        names = {actor.field_manager, actor.name.rpartition(":")[2]}
        tool = next((key for key, marks in load_advice().tools.items() if names & marks), "")
        if tool == _AUTOSCALER or (tool and self.plan.fights):
            return tool
        # A person, or a script, with kubectl is no program that can be corrected.
        if self.plan.scope == "status" and any(name.startswith(BY_HAND) for name in names):
            return "by_hand"
        # A tool is the controller of its own objects.
        is_own = self.found.subject.group.endswith(("argoproj.io", "toolkit.fluxcd.io"))
        return "synced" if tool and not is_own else "program"

    def _called(self, actor: Actor) -> tuple[_Names, _Tried]:
        """Return a webhook or a policy, with what is taken from it, and what came of trying that.

        The object, or the kind of many objects, is taken where less does not end it: a kind may
        have no status of its own, and a webhook that changes its own work again does so in the next
        write as well. A policy knows no second call. The next generated name is another one.
        """
        configuration, _, webhook = actor.name.partition("/")
        policy = actor.name if actor.type == "policy" else ""
        operation, where = self.trials.operation(), self.found.subject
        widest: ScopeName = "object" if self.found.objects is None else "kind"
        if operation and _GENERATED.search(f"{where.resource}/{where.name}"):
            widest = "operation"
        is_status = self.found.subresource == "status"
        less = {"status": is_status, "again": not policy, "setting": not policy}
        scope = self.plan.scope if less.get(self.plan.scope) else widest
        trial = self.trials.not_called(scope, policy)
        if trial.ended < trial.of and (wider := self.trials.not_called(widest, policy)).is_complete:
            scope, trial = widest, wider
        is_rule = scope in ("status", "operation") and not policy
        names = {
            "name": actor.name,
            "configuration": configuration,
            "webhook": webhook,
            "once": scope == "again",
            "rules": self._patch(scope, configuration, webhook) if is_rule else [],
            "by_operation": scope == "operation",
            **condition(self.found, scope, operation),
        }
        return names, lambda: trial

    def _patch(self, scope: ScopeName, configuration: str, webhook: str) -> list[dict[str, Any]]:
        """Return the JSON Patch that takes the status, or an operation, out of rules; [] for none.

        Each index is tested first: it may be another one by now. A rule that is for other kinds as
        well keeps its operations.
        """
        within = [entry for entry in self.registered if entry.configuration == configuration]
        at = next((at for at, entry in enumerate(within) if entry.webhook == webhook), None)
        rules = enumerate(() if at is None else within[at].match.rules)
        resource = self.found.subject.resource
        is_status = scope == "status"
        key = "resources" if is_status else "operations"
        less = {f"{resource}/status", "*/status"} if is_status else {self.trials.operation()}
        found: list[dict[str, Any]] = []
        for number, rule in reversed([*rules]):
            path, named = f"/webhooks/{at}/rules/{number}", list(rule.get(key) or ())
            below, rest = f"{path}/{key}", [value for value in named if value not in less]
            replaced = {"op": "replace", "path": below, "value": rest}
            if not is_status and rule.get("resources") != [resource]:
                return []
            if rest != named:
                found.append({"op": "test", "path": below, "value": named})
                found.append(replaced if rest else {"op": "remove", "path": path})
        name = {"op": "test", "path": f"/webhooks/{at}/name", "value": webhook}
        return [name, *found] if found else []


def _sets(at: str, paths: Iterable[Sequence[str]], depth: int = 0) -> str:
    """Return a CEL expression: whether a field is in what is `at`, in any item of a list."""
    below: dict[str, list[Sequence[str]]] = {}
    for step, *rest in paths:
        below.setdefault("*" if step.isdigit() else step, []).append(rest)
    found = []
    for step, rests in below.items():
        item, is_list = f"i{depth}", step == "*"
        is_name = _CEL_NAME.fullmatch(step) and step not in _CEL_WORDS
        inside = item if is_list else f"{at}.{step}" if is_name else f"{at}[{json_line(step)}]"
        inner = "true" if [] in rests else _sets(inside, rests, depth + is_list)
        inner = f"({inner})" if " || " in inner and not is_list else inner
        there = f"has({inside})" if is_name else f"{json_line(step)} in {at}"
        term = there if inner == "true" else f"{there} && {inner}"
        found.append(f"{at}.exists({item}, {inner})" if is_list else term)
    return " || ".join(found)


def _joined(actors: Iterable[Actor]) -> str:
    return " and ".join(dict.fromkeys(actor.name for actor in actors))


def _is_restored(found: Finding) -> bool:
    """Whether enforcing puts back what is lost: an observedGeneration that was cleared.

    An older number is not cleared, and a webhook that leaves the value has not cleared it.
    """
    known = [
        signal["observedGeneration"] for signal in found.evidence if "observedGeneration" in signal
    ]
    is_cleared = not any(known[-1:]) and any(actor.type == "webhook" for actor in found.actors)
    is_about_it = any(path.endswith("/observedGeneration") for path in found.paths)
    return is_about_it and (is_cleared or found.detector != "observed-generation-stalled")


def condition(found: Finding, scope: ScopeName, operation: str = "") -> dict[str, str]:
    """Return the scope in words, and name and expression of a matchCondition that leaves it out."""
    where, text = found.subject, load_advice().scopes[scope]
    fields = [to_field_path(from_pointer(path)).replace(".*", "[*]") for path in found.paths]
    names = msgspec.structs.asdict(where) | {"operation": operation, "field": "".join(fields[:1])}
    name = _NOT_IN_A_NAME.sub("-", text.name.format_map(names).lower())
    names["field"] = few(fields)
    values = {key: json_line(name) for key, name in names.items()}
    values["sets"] = _sets("object", map(from_pointer, found.paths))
    terms = [term for term in text.terms if "{namespace}" not in term or where.namespace]
    return {
        "scope": text.words.format_map(names),
        "condition": name[:_LONGEST_NAME].strip("-"),
        "expression": " || ".join(term.format_map(values) for term in terms),
    }


def repair_command(where: FoundObject, subresource: str, damage: Damage) -> str:
    """Return a line for a shell that puts lost values back into the status of an object.

    "" where nothing is to be put back, or nobody saw whose the values were. `subresource` is the
    one that the object was written by: "status", or "" for the object itself.

    A JSON Patch names a condition by its index, which may be another one by now. So conditions
    are found by their type, by jq, and the object is replaced with the resourceVersion it had. jq
    reads JSON as plain values: no type of a condition becomes a filter.
    """
    texts = load_advice().repairs
    known = (loss for loss in damage.lost if generation_number(loss.value) is not None)
    lost = [(loss.condition, json_line(loss.value)) for loss in known]
    if not damage.writer or not lost:
        return ""
    sets = [
        texts["own" if kind is None else "condition"].format(type=json_line(kind), value=value)
        for kind, value in lost
    ]
    names = {
        "where": where,
        "subresource": subresource and "status",
        "value": lost[0][1],
        "values": " | ".join(sets),
    }
    return _command(texts["one" if [kind for kind, _ in lost] == [None] else "several"], names)


def _stop_command(actor: Actor) -> str:
    """Return a line for a shell that stops the workloads of a service account; "" for others."""
    texts, account = load_advice().stops, _SERVICE_ACCOUNT.fullmatch(actor.name)
    namespace, name = account.groups() if account else ("", "")
    query = texts["query"].format(name=name)
    return _command(texts["command"], {"namespace": namespace, "query": query}) if account else ""


def _value(name: str, names: _Names) -> Any:
    first, *below = name.split(".")
    return reduce(getattr, below, names[first])


def _filled(template: Any, names: _Names) -> Any:
    """Return a template with its names filled in; what is empty then is left out of objects."""
    if isinstance(template, dict):
        filled = {key: _filled(value, names) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value not in ("", [])}
    if isinstance(template, list):
        return [_filled(item, names) for item in template]
    alone = _ONLY_A_NAME.fullmatch(template)
    return _value(alone[1], names) if alone else template.format_map(names)


def _command(template: str, names: _Names) -> str:
    """Return a line for a shell: `|` is a pipe, and an option without a value is left out.

    "" where a name may be an option, or steer a terminal: who forges a review chooses names. A name
    alone is a whole line.
    """
    if _ONLY_A_NAME.fullmatch(template):
        return str(_filled(template, names))
    words: list[str] = []
    for part in template.split():
        word, is_option = part.format_map(names), part.startswith("-")
        if not word.isprintable() or (word.startswith("-") and not is_option):
            return ""
        if word and not (is_option and word.endswith("=")):
            words.append(word if part == "|" else shlex.quote(word))
        elif words[-1].startswith("-"):
            words.pop()
    return " ".join(words)


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=False))


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.ScalarNode:
        is_block = "\n" in value and value.isascii()
        return super().represent_scalar(tag, value, "|" if is_block else style)
