"""What an installation does to objects, worked out from documents alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from enum import StrEnum
from itertools import product
from typing import Any, Final, NamedTuple

from genguard.admission.matching import NAME_LABEL, TRACE_LABEL
from genguard.admission.probe import PROBE
from genguard.admission.review import own_phase
from genguard.objects.fields import Path, to_field_path
from genguard.objects.shown import few
from genguard.shipped import shipped
from webhook.manifest.documents import Document, title_of
from webhook.manifest.rendering import REGISTRATIONS

RUN: Final = "genguard.io/install"
"""The label of temporary objects of an installation."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_SERVER_FIELDS: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"}
)


class Action(StrEnum):
    """What a step does to an object."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


class Step(NamedTuple):
    """One object: what is done, which fields change, and a note for the user."""

    action: Action
    document: Document
    fields: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        remark = "; ".join(filter(None, (few(self.fields), self.note)))
        return f"{self.action:10}{title_of(self.document)}{f'  ({remark})' if remark else ''}"


def compare(wanted: Document, live: Document | None, would: Document) -> Step:
    """Return the step for one object: `live` exists now, `would` is the answer to the dry run.

    So defaults and fields of other owners are no difference. No values are shown.
    """
    if live is None:
        return Step(Action.CREATE, wanted)
    fields = tuple(dict.fromkeys(to_field_path(path) for path in _differences(live, would)))
    return Step(Action.UPDATE if fields else Action.UNCHANGED, wanted, fields)


def _differences(live: Any, would: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the deepest paths at which two documents differ, without fields of the server."""
    if isinstance(live, Mapping) and isinstance(would, Mapping):
        servers = _SERVER_FIELDS if at == ("metadata",) else () if at else ("status",)
        for key in sorted({*live, *would}.difference(servers)):
            yield from _differences(live.get(key), would.get(key), (*at, key))
    elif isinstance(live, list) and isinstance(would, list) and len(live) == len(would):
        for index, (this, that) in enumerate(zip(live, would, strict=True)):
            yield from _differences(this, that, (*at, index))
    elif live != would:
        yield at


def trial(registrations: Iterable[Document], run: str, bundle: str | None) -> list[Document]:
    """Return a namespace, and the webhooks of `registrations` for the probe of this run in it.

    They fail, so that the API server itself says why it cannot reach the server. `bundle` is the
    caBundle, where cert-manager or the server writes it into the registrations themselves.
    """
    metadata = {"name": f"genguard-test-{run}", "labels": {RUN: run}}
    found: dict[str, Document] = {
        "": {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    }
    for registration in registrations:
        head = {"apiVersion": registration["apiVersion"], "kind": registration["kind"]}
        made = found.setdefault(head["kind"], {**head, "metadata": metadata, "webhooks": []})
        for hook in registration["webhooks"]:
            client = hook["clientConfig"] | ({} if bundle is None else {"caBundle": bundle})
            limits = {
                "failurePolicy": "Fail",
                "namespaceSelector": {"matchLabels": {NAME_LABEL: metadata["name"]}},
                "objectSelector": {"matchLabels": {RUN: run}},
            }
            made["webhooks"].append(hook | limits | {"clientConfig": client})
    return list(found.values())


def foreign(configurations: Iterable[Document], namespace: str) -> list[Document]:
    """Return the registrations of other genguards than the one in this namespace.

    They have other names, or call the Service of another namespace.
    """
    found = []
    for configuration in configurations:
        labels = configuration["metadata"].get("labels") or {}
        is_passing = RUN in labels or TRACE_LABEL in labels
        if is_passing or not any(
            own_phase(configuration, hook) for hook in configuration.get("webhooks") or ()
        ):
            continue
        if not _is_named_so(configuration) or home_of(configuration) not in ("", namespace):
            found.append(configuration)
    return found


def home_of(registration: Mapping[str, Any]) -> str:
    """The namespace of the Service that a registration calls; "" for a URL."""
    hook: Mapping[str, Any] = next(iter(registration.get("webhooks") or ()), {})
    service = (hook.get("clientConfig") or {}).get("service") or {}
    return str(service.get("namespace", ""))


def removal_commands(others: Sequence[Document]) -> str:
    """Return the shell commands that remove other genguards from the cluster."""
    ours = [other for other in others if _is_named_so(other)]
    homes = dict.fromkeys(f"genguard uninstall -n {home_of(other)}" for other in ours)
    named = [title_of(other) for other in others if other not in ours]
    return " && ".join([*homes, *([f"kubectl delete {' '.join(named)}"] if named else [])])


def _is_named_so(document: Document) -> bool:
    return (document["kind"], document["metadata"]["name"]) in REGISTRATIONS


def release_of(live: Mapping[str, Any]) -> str:
    """Return the Helm release that manages an object, as `NAME -n NAMESPACE`; "" if none does.

    Argo CD renders a chart without a release, and leaves the annotations out.
    """
    annotations = live["metadata"].get("annotations") or {}
    name, namespace = (
        annotations.get(f"meta.helm.sh/release-{part}") for part in ("name", "namespace")
    )
    return f"{name} -n {namespace}" if _is_of_helm(live) and name else ""


def _is_of_helm(document: Mapping[str, Any]) -> bool:
    return bool((document["metadata"].get("labels") or {}).get(MANAGED_BY) == "Helm")


def merged(registration: Document, live: Mapping[str, Any] | None) -> Document:
    """Return the registration with the rules of `live` for resources that it does not name.

    Users add such rules for custom resources. A rule with a wildcard is dropped, and any rule where
    Helm manages the registration: its values name them. A caBundle that another program writes is
    kept.
    """
    found = deepcopy(registration)
    there = {webhook.get("name"): webhook for webhook in (live or {}).get("webhooks") or ()}
    for webhook in found["webhooks"]:
        old = there.get(webhook["name"], {})
        known = set().union(*map(_named, webhook["rules"]))
        for rule in () if _is_of_helm(registration) else old.get("rules") or ():
            pairs = _named(rule)
            if not pairs & known and not any("*" in word for pair in pairs for word in pair):
                webhook["rules"].append(rule)
        bundle = (old.get("clientConfig") or {}).get("caBundle")
        if bundle:
            webhook["clientConfig"].setdefault("caBundle", bundle)
    return found


def _named(rule: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return each (group, resource) of a rule."""
    return {*product(rule.get("apiGroups") or (), rule.get("resources") or ())}


def probe(value: str, namespace: str, run: str = "") -> Document:
    """Return a PodTemplate: no controller acts on it."""
    labels = {"app.kubernetes.io/name": "genguard-probe"} | ({RUN: run} if run else {})
    names = {"name": f"genguard-probe-{value}", "namespace": namespace, "labels": labels}
    metadata = {**names, "annotations": {PROBE: value}}
    return {**shipped("webhook.install", "probe.yaml", dict[str, Any]), "metadata": metadata}
