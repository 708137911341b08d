"""The change that ends a loop: from a finding to ordered steps, with commands ready to copy.

Reads    a finding; where they are known, the registered webhooks and how genguard was installed
Result   only steps that apply: by the detector, by genguard's mode, by the type of the actors, by
         what they are (Argo CD, Flux, Helm, kubectl, an autoscaler), and by how sure it is. First
         what stops the damage, then what mends the cause. Nothing is to be changed for an actor
         that is only possible: then a step finds out who it is
Relies   on nothing of an object's content: names and paths alone

A detector without a row in PLANS gets the general plan, so a new one needs nothing here.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from genguard.detection.finding import Actor, Confidence, Finding, FixStep
from genguard.detection.sample import shown_diff
from genguard.detection.suspects import Registered
from genguard.generation.table import load_rows

_REPLICAS: Final = "/spec/replicas"
_OBSERVED: Final = "observedGeneration"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 63
_STATIC: Final = ".static.k8s.io"
"""What the names of static webhooks and policies end with (KEP-5793)."""


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


class Scope(Enum):
    """Which calls a webhook need not get any more."""

    STATUS = "writes of the status of this kind"
    OBJECT = "writes of this object"
    AGAIN = "a second call for one write"


class Plan(NamedTuple):
    """What ends the loops of one detector.

    scope     the calls that are taken from a webhook or policy
    webhook   what its owner changes in the code of the webhook
    writer    what the owner of a controller, or a person, changes
    fights    two writers of a field: tools that sync a manifest can be made to leave it out
    restores  genguard restores the value itself, unless it runs with --audit-only
    harmless  nobody has to change anything in the cluster
    """

    scope: Scope
    webhook: str
    writer: str
    fights: bool = False
    restores: bool = False
    harmless: bool = False


_PATCH_LESS: Final = (
    "It must patch only the fields that it means to change. Usually it decodes the object into a "
    "type of its own, which lacks newer fields, and patches the whole object back."
)
_GIVE_IN: Final = (
    "It must set a field only where the request has none, or say no: a webhook that denies is seen "
    "by who asks, one that changes the value back is not."
)
_OF_POLICY: Final = (
    "Its mutations must set a field only where the request has none, and its matchConditions must "
    "leave out the writers of the field. Whoever installs the policy must change it there, too."
)
_GENERAL: Final = Plan(
    Scope.OBJECT,
    _PATCH_LESS,
    "It must not write what somebody else undoes, or what makes a reason for its next write.",
    fights=True,
)
PLANS: Final[Mapping[str, Plan]] = {
    "observed-generation-cleared": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must keep the observedGeneration values that it read, in the status and in each "
        "condition: an update with an older type leaves them out. Let it patch, or update its API "
        "library.",
        restores=True,
    ),
    "status-clobbered": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must patch its own fields of the status, by server-side apply with a manager of its "
        "own, and not update the whole status.",
    ),
    "terminating-replicas-dropped": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "Update its API library to one that has status.terminatingReplicas (KEP-3973).",
    ),
    "observed-generation-stalled": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must set status.observedGeneration to the metadata.generation that it has read, with "
        "each status that it writes.",
        restores=True,
    ),
    "observed-generation-ahead": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must copy metadata.generation as it was read, and not count for itself: no spec has "
        "had this number yet.",
    ),
    "status-oscillation": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "One of the writers must leave these fields of the status to the other. Two replicas of "
        "one controller without leader election look the same: then let one lead.",
    ),
    "foreign-status-writer": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must leave the status to the controller of the kind: the status of a bound pod to its "
        "kubelet. What it has to say belongs into a condition of its own, which "
        "spec.readinessGates names.",
    ),
    "condition-generation-missing": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must set observedGeneration of each condition that it writes to the "
        "metadata.generation that it has read.",
    ),
    "status-write-storm": Plan(
        Scope.STATUS,
        _PATCH_LESS,
        "It must compare the status that it wants with the one that is stored, without times, "
        "order and fields that the schema drops, and write only if they differ.",
        restores=True,
    ),
    "generation-storm": Plan(
        Scope.OBJECT,
        _GIVE_IN,
        "It must not write spec for what it has itself just written. Where the kind has no status "
        "subresource, each status write counts: add `subresources: {status: {}}` to the "
        "CustomResourceDefinition.",
        fights=True,
    ),
    "spec-fight": Plan(
        Scope.OBJECT, _GIVE_IN, "It must leave the field to the other writer.", fights=True
    ),
    "metadata-fight": Plan(
        Scope.OBJECT, _GIVE_IN, "It must leave the field to the other writer.", fights=True
    ),
    "metadata-clobbered": Plan(
        Scope.OBJECT, _PATCH_LESS, "It must keep the labels and annotations of others."
    ),
    "unstable-mutation": Plan(
        Scope.AGAIN,
        "It must be idempotent: called with what it has returned, it changes nothing. Look for "
        "items that it appends, times, random names, and hashes of what it sets itself.",
        "It must be idempotent.",
    ),
    "recreation": Plan(
        Scope.OBJECT,
        _GIVE_IN,
        "Either it stops deleting what is created again at once, or the other stops creating it: "
        "leave this object, or its owner, out of one of the two. Where the garbage collector "
        "deletes it, the owner that it names is not there: correct its ownerReferences.",
        fights=True,
    ),
    "refused-retry": Plan(
        Scope.OBJECT,
        _GIVE_IN,
        "It must ask for what can be stored, and wait longer after each refusal. The API server's "
        "answer says what is wrong: send the same with --dry-run=server.",
    ),
    "cross-object-loop": Plan(
        Scope.OBJECT,
        _PATCH_LESS,
        "Each of the two answers a write of the other. One of them must compare what it wants with "
        "what is stored, and write only if that differs.",
    ),
    "generation-mismatch": Plan(
        Scope.OBJECT,
        _PATCH_LESS,
        "genguard predicted another number than the API server has counted.",
        harmless=True,
    ),
}


def fix(
    found: Finding,
    registered: Sequence[Registered] = (),
    installation: Installation = UNKNOWN_INSTALLATION,
) -> tuple[FixStep, ...]:
    """Return the steps, the first to take first.

    registered  the webhooks of the cluster, in their order; a rule is named only where it is known
    """
    steps = list(_steps(found, registered, installation))
    return tuple(sorted(steps, key=lambda one: one.lasting))


def with_fix(
    found: Finding,
    registered: Sequence[Registered] = (),
    installation: Installation = UNKNOWN_INSTALLATION,
    sample: bytes | None = None,
) -> Finding:
    """Return the finding with its steps, and with what happened in its sample."""
    diff = None if sample is None else shown_diff(sample)
    return msgspec.structs.replace(found, fix=fix(found, registered, installation), diff=diff)


def _steps(
    found: Finding, registered: Sequence[Registered], installation: Installation
) -> Iterator[FixStep]:
    if found.caused_by:
        yield FixStep(
            "End the finding that causes it",
            f"It follows from finding {found.caused_by}, and ends with that one.",
            f"genguard explain finding/{found.caused_by}",
        )
        return
    plan = PLANS.get(found.detector, _GENERAL)
    if plan.harmless:
        yield _of_genguard(plan, installation)
        return
    if plan.restores and _is_restored(found):
        yield from _by_genguard(found, installation)
    sure = [one for one in found.actors if one.confidence is not Confidence.POSSIBLE]
    if sure:
        writers = [one for one in sure if one.type == "user"]
        if plan.fights and _REPLICAS in found.paths:
            yield from _autoscaled(writers)
        yield from _of_others(found, plan, [one for one in sure if one.type != "user"], registered)
        if plan.fights:
            for actor in writers:
                yield from _of_tool(found, actor)
        yield from _of_writers(found, plan, writers)
    else:
        yield _find_out(found)
    if found.repair and found.state != "resolved":
        yield _by_hand(found, installation, is_proven=bool(sure))


def _of_genguard(plan: Plan, installation: Installation) -> FixStep:
    """Return the step for what genguard itself has wrong."""
    mend = "It assumed another version of Kubernetes: give it --kubeconfig or --server-version."
    if installation.connected:
        mend = (
            "It knows the version of the API server that it is connected to. During an upgrade "
            "another one is older or newer: wait for its end. Otherwise a feature gate is set "
            "otherwise, or its table of kinds is wrong: please open an issue."
        )
    return FixStep("Change nothing in the cluster", f"{plan.writer} {mend}")


def _by_genguard(found: Finding, installation: Installation) -> Iterator[FixStep]:
    """Yield what genguard does, or would do, for a value that it can restore."""
    if installation.enforcing is False:
        text = (
            "genguard runs with --audit-only, and so it only watches. Enforcing, it restores the "
            "value in the same write."
        )
        where = (
            "The command keeps the other settings of this installation."
            if installation.enforce
            else "Start genguard serve again with the same flags, but without --audit-only."
        )
        yield FixStep("Let genguard restore the value", f"{text} {where}", installation.enforce)
    elif installation.enforcing and found.state == "open" and not found.repair:
        yield FixStep(
            "Nothing has to be stopped at once",
            "genguard restores the value in the same write, and the stored object is right. Mend "
            "the cause by day.",
        )


def _by_hand(found: Finding, installation: Installation, *, is_proven: bool) -> FixStep:
    """Return the step that puts a lost value back into the stored object."""
    text = "The command fails if the object has changed since then."
    if not installation.enforcing and found.state == "open":
        text += " As long as the cause is there, the next write may lose the value again" + (
            ": take the steps before this one first." if is_proven else "."
        )
    return FixStep("Restore the lost value by hand", text, found.repair)


def _of_others(
    found: Finding, plan: Plan, actors: Iterable[Actor], registered: Sequence[Registered]
) -> Iterator[FixStep]:
    """Yield what is changed about actors that are no users."""
    for actor in actors:
        if actor.type == "webhook":
            yield from _of_webhook(found, plan, actor, registered)
        elif actor.type == "policy":
            yield from _of_policy(found, plan, actor)
        else:
            yield _mended(actor.name, plan.webhook)


def _mended(name: str, how: str) -> FixStep:
    return FixStep(f"Mend {name} for good", how, lasting=True)


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
        return FixStep(
            "Find out which webhook it is",
            "Several may have changed the write. This proves who does, on this object, and leaves "
            "nothing behind.",
            _command(found, "genguard", "trace", *target),
        )
    fields = [_field(path) for path in found.paths[:1]]
    return FixStep(
        "Find out who writes it",
        "No actor is certain or likely. This shows who wrote each field last and, with an audit "
        "log, by -f, also who was it before.",
        _command(found, "genguard", "blame", *target, *fields),
    )


def _of_webhook(
    found: Finding, plan: Plan, actor: Actor, registered: Sequence[Registered]
) -> Iterator[FixStep]:
    configuration, _, webhook = actor.name.partition("/")
    if configuration.endswith(_STATIC):
        yield _in_manifest(found, _scope(found, plan), webhook, configuration)
        yield _mended(webhook, plan.webhook)
        return
    known = _registered(configuration, webhook, registered)
    scope = _scope(found, plan)
    patch: Any = None
    if scope is Scope.STATUS and known is not None:
        patch = _without_rules(*known, found.object.resource)
    if patch is not None:
        title = f"Take the rule for status out of {webhook}"
        text = "It is not called for these writes any more. The command fails if it has changed."
        form = "json"
    elif scope is Scope.AGAIN:
        patch = {"webhooks": [{"name": webhook, "reinvocationPolicy": "Never"}]}
        title = f"Call {webhook} once for each write"
        text = "It does not see any more what later webhooks change."
        form = "strategic"
    else:
        patch = {"webhooks": [{"name": webhook, "matchConditions": [_condition(found, scope)]}]}
        title = f"Do not call {webhook} for {scope.value}"
        text = "The condition is added to those that it has (Kubernetes 1.30 or newer)."
        form = "strategic"
    owner = f" Who installs {configuration} must do the same, or it comes back."
    command = _patched(found, "mutatingwebhookconfiguration", configuration, form, patch)
    yield FixStep(title, text + owner, command)
    yield _mended(webhook, plan.webhook)


def _scope(found: Finding, plan: Plan) -> Scope:
    """Return what is taken from a webhook or policy; a kind may have no status of its own."""
    is_whole = plan.scope is Scope.STATUS and found.subresource != "status"
    return Scope.OBJECT if is_whole else plan.scope


def _in_manifest(found: Finding, scope: Scope, name: str, configuration: str) -> FixStep:
    """Return the step for what no API lists: the API server reads it from its own files."""
    change: dict[str, Any] = {"matchConditions": [_condition(found, scope)]}
    if scope is Scope.AGAIN:
        change = {"reinvocationPolicy": "Never"}
    return FixStep(
        f"Change {name} in the manifests of the API server",
        f"{configuration} is static: it is in the files that staticManifestsDir of the API "
        "server's admission configuration names, on each of its hosts. Add this to it.",
        stanza=_yaml(change),
    )


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
    """Return a matchCondition that leaves out the status of a kind, or one object."""
    where = found.object
    terms = [("request.resource.group", where.group), ("request.resource.resource", where.resource)]
    if scope is Scope.STATUS:
        terms.append(("request.subResource", "status"))
        name = f"not-status-of-{where.resource}"
    else:
        terms += [("request.namespace", where.namespace)] if where.namespace else []
        terms.append(("request.name", where.name))
        name = f"not-{where.resource}-{where.namespace}-{where.name}"
    expression = " || ".join(f"{term} != {json.dumps(value)}" for term, value in terms)
    plain = _NOT_IN_A_NAME.sub("-", name.lower())[:_LONGEST_NAME].strip("-")
    return {"name": plain, "expression": expression}


def _of_policy(found: Finding, plan: Plan, actor: Actor) -> Iterator[FixStep]:
    scope = Scope.OBJECT if plan.scope is Scope.AGAIN else _scope(found, plan)
    if actor.name.endswith(_STATIC):
        yield _in_manifest(found, scope, actor.name, actor.name)
        yield _mended(f"the policy {actor.name}", _OF_POLICY)
        return
    patch = {"spec": {"matchConditions": [_condition(found, scope)]}}
    yield FixStep(
        f"Take {scope.value} out of the policy {actor.name}",
        "The condition is added to those that it has. Its mutations name the field.",
        _patched(found, "mutatingadmissionpolicy", actor.name, "strategic", patch),
    )
    yield _mended(f"the policy {actor.name}", _OF_POLICY)


class Tool(NamedTuple):
    """A tool that keeps objects as its manifests say, known by field manager or user."""

    name: str
    marks: tuple[str, ...]
    steps: Callable[[Finding, Actor], Iterator[FixStep]]


def _of_tool(found: Finding, actor: Actor) -> Iterator[FixStep]:
    tool = _tool(actor)
    if tool is not None:
        yield from tool.steps(found, actor)


def _tool(actor: Actor) -> Tool | None:
    names = (actor.field_manager, actor.name.rpartition(":")[2])
    return next((one for one in TOOLS if any(name in one.marks for name in names)), None)


def _argo(found: Finding, _: Actor) -> Iterator[FixStep]:
    where = found.object
    if found.detector == "recreation":
        yield _annotated(found, "argocd.argoproj.io/sync-options", "Prune=false", "Argo CD")
        return
    entry = {
        "group": where.group,
        "kind": _kind(where.group, where.resource) or "*",
        "name": where.name,
        **({"namespace": where.namespace} if where.namespace else {}),
        "jsonPointers": list(found.paths),
    }
    stanza = {
        "spec": {
            "ignoreDifferences": [entry],
            "syncPolicy": {"syncOptions": ["RespectIgnoreDifferences=true"]},
        }
    }
    yield FixStep(
        "Let Argo CD ignore the field",
        "Add this to the Application. Without RespectIgnoreDifferences a sync still writes the "
        "field.",
        stanza=_yaml(stanza),
    )


def _kustomization(found: Finding, _: Actor) -> Iterator[FixStep]:
    where = found.object
    if found.detector == "recreation":
        yield _annotated(found, "kustomize.toolkit.fluxcd.io/prune", "disabled", "Flux")
        return
    kind = _kind(where.group, where.resource)
    removals = [{"op": "remove", "path": path} for path in found.paths]
    target = {
        **({"group": where.group} if where.group else {}),
        **({"kind": kind} if kind else {}),
        "name": where.name,
        **({"namespace": where.namespace} if where.namespace else {}),
    }
    stanza = {"spec": {"patches": [{"target": target, "patch": _yaml(removals)}]}}
    yield FixStep(
        "Let Flux leave the field out",
        "Add this to the Kustomization, or remove the field from the manifest. To apply the whole "
        "object only while it does not exist, annotate its manifest with "
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent instead.",
        stanza=_yaml(stanza),
    )


def _helm_release(found: Finding, _: Actor) -> Iterator[FixStep]:
    where = found.object
    kind = _kind(where.group, where.resource)
    target = {**({"kind": kind} if kind else {}), "name": where.name}
    ignored = {"paths": list(found.paths), "target": target}
    stanza = {"spec": {"driftDetection": {"mode": "enabled", "ignore": [ignored]}}}
    yield FixStep(
        "Let Flux's Helm release ignore the field",
        "Add this to the HelmRelease. Drift detection then does not put the field back.",
        stanza=_yaml(stanza),
    )


def _manifest(found: Finding, actor: Actor) -> Iterator[FixStep]:
    """Yield the step for who applies manifests by hand or from a pipeline."""
    if found.detector == "recreation":
        return
    fields = ", ".join(map(_field, found.paths)) or "the field"
    command = ""
    if actor.field_manager in ("kubectl-client-side-apply", "kubectl"):
        edit = ("kubectl", "apply", "edit-last-applied", _target(found), *_namespace(found))
        command = _command(found, *edit)
    helm = actor.field_manager == "helm"
    what = "the chart's templates or values" if helm else "the manifest that is applied"
    hint = " Remove it in the editor, too, or the next apply deletes it." if command else ""
    yield FixStep(
        f"Drop {fields} from {what}",
        f"{actor.name} applies it each time.{hint}",
        command,
    )


TOOLS: Final = (
    Tool(
        "Argo CD",
        ("argocd-controller", "argocd-application-controller", "argocd-server", "argocd"),
        _argo,
    ),
    Tool("Flux", ("kustomize-controller",), _kustomization),
    Tool("Flux's Helm controller", ("helm-controller",), _helm_release),
    Tool(
        "a manifest",
        ("helm", "kubectl", "kubectl-client-side-apply", "kubectl-last-applied"),
        _manifest,
    ),
)
_AUTOSCALERS: Final = frozenset({"horizontal-pod-autoscaler", "keda-operator"})


def _is_autoscaler(actor: Actor) -> bool:
    return actor.name.rpartition(":")[2] in _AUTOSCALERS


def _autoscaled(actors: Sequence[Actor]) -> Iterator[FixStep]:
    scaler = next(filter(_is_autoscaler, actors), None)
    if scaler is None:
        return
    others = [one.name for one in actors if not _is_autoscaler(one)]
    who = " and ".join(others) or "whoever else sets it"
    yield FixStep(
        "Leave spec.replicas to the autoscaler",
        f"{scaler.name} sets it by load, and {who} sets it back. A fixed spec.replicas does not "
        "belong into the manifest of an object that is scaled by a HorizontalPodAutoscaler.",
    )


def _of_writers(found: Finding, plan: Plan, actors: Sequence[Actor]) -> Iterator[FixStep]:
    """Yield what the owners of the other writers change; for a fight, who owns the field."""
    others = [one for one in actors if not (plan.fights and _tool(one)) and not _is_autoscaler(one)]
    names = " and ".join(dict.fromkeys(one.name for one in others))
    has_tool = len(others) < len(actors)
    if not others:
        return
    if plan.fights and has_tool:
        # What the tool leaves out is the other's from now on: nothing to change there.
        return
    if plan.fights and len(others) > 1:
        fields = ", ".join(map(_field, found.paths)) or "the object"
        yield FixStep(
            f"Decide who owns {fields}",
            f"{names} write it in turn. {plan.writer}",
            _command(found, "genguard", "blame", _target(found), *_namespace(found)),
        )
        return
    yield FixStep(f"Mend {names}", plan.writer, lasting=True)


def _annotated(found: Finding, key: str, value: str, tool: str) -> FixStep:
    stanza = {"metadata": {"annotations": {key: value}}}
    return FixStep(
        f"Keep {tool} from deleting it",
        f"Where {tool} is who deletes it: add this to the manifest of {_target(found)}. Where it "
        "is who creates it: take the object out of what it applies.",
        stanza=_yaml(stanza),
    )


@cache
def _kinds() -> Mapping[tuple[str, str], str]:
    return {(row.group, row.resource): row.kind for row in load_rows()}


def _kind(group: str, resource: str) -> str:
    """Return the kind of a built-in resource; "" for any other."""
    return _kinds().get((group, resource), "")


def _target(found: Finding) -> str:
    where = found.object
    return f"{where.resource}.{where.group}".rstrip(".") + f"/{where.name}"


def _namespace(found: Finding) -> tuple[str, ...]:
    return ("-n", found.object.namespace) if found.object.namespace else ()


def _field(pointer: str) -> str:
    return pointer[1:].replace("/", ".").replace("~1", "/").replace("~0", "~")


def _patched(found: Finding, kind: str, name: str, form: str, patch: Any) -> str:
    text = json.dumps(patch, separators=(",", ":"))
    if not _is_safe((name,)):
        return ""
    return _command(found, "kubectl", "patch", kind, name, f"--type={form}", "-p", text)


def _command(found: Finding, *words: str) -> str:
    """Return a line for a shell; "" where a name may be none: who forges a review chooses names."""
    where = found.object
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
