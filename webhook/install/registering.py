"""Build the registrations and the probe of an installation, which proves each step.

check    a validating webhook with failurePolicy Fail, only for dry runs of a probe in the trial
         namespace: so the API server itself says why it cannot reach the server
limited  one of the three registrations, only for the trial namespace
merged   one of the three, with rules that users have added for other resources
foreign  registrations of another genguard in the same cluster
release  the Helm release that manages an object
probe    the object that is sent in dry runs
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from genguard.admission.probe import PROBE
from genguard.admission.review import own_phase
from genguard.detection.suspects import TRACE_LABEL
from webhook.manifest.documents import Document, title_of
from webhook.manifest.rendering import REGISTRATIONS

RUN: Final = "genguard.io/install"
"""The label of temporary objects of an installation."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"

_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"

_NAME: Final = "kubernetes.io/metadata.name"  # the API server puts it on every namespace
_TRIAL: Final = "genguard-test-"
_TIMEOUT_SECONDS: Final = 5
_CONTAINER: Final[Mapping[str, Any]] = {
    "name": "probe",
    "image": "registry.k8s.io/pause:3.10",  # never pulled: it is a dry run
    "resources": {
        "requests": {"cpu": "1m", "memory": "1Mi"},
        "limits": {"cpu": "1m", "memory": "1Mi"},
    },
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
}


def trial_name(run: str) -> str:
    """The name of the temporary objects of a run."""
    return f"{_TRIAL}{run}"


def trial_namespace(run: str) -> Document:
    """The namespace in which a run tests its registrations."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": trial_name(run), "labels": {RUN: run}},
    }


def check(registration: Document, run: str) -> Document:
    """Return a configuration that calls the same server as `registration`, the validating one."""
    (webhook,) = registration["webhooks"]
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["podtemplates"],
        "operations": ["CREATE"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": trial_name(run), "labels": {RUN: run}},
        "webhooks": [
            {
                "name": "check.genguard.io",
                "clientConfig": webhook["clientConfig"],
                "rules": [rule],
                "namespaceSelector": _only(trial_name(run)),
                "objectSelector": {"matchLabels": {RUN: run}},
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": _TIMEOUT_SECONDS,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def limited(registration: Document, run: str) -> Document:
    """Return the registration limited to the trial namespace."""
    found = deepcopy(registration)
    for webhook in found["webhooks"]:
        webhook["namespaceSelector"] = _only(trial_name(run))
    return found


def is_limited(registration: Mapping[str, Any]) -> bool:
    """Whether a registration is limited to a trial namespace: an installation goes on, or did."""
    selectors = [one.get("namespaceSelector") or {} for one in registration.get("webhooks") or ()]
    names = [(one.get("matchLabels") or {}).get(_NAME, "") for one in selectors]
    return any(name.startswith(_TRIAL) for name in names)


def foreign(configurations: Iterable[Document], namespace: str) -> list[Document]:
    """Return the registrations of other genguards than the one in this namespace.

    They have other names, or call the Service of another namespace.
    """
    found = []
    for one in configurations:
        labels = one["metadata"].get("labels") or {}
        is_passing = RUN in labels or TRACE_LABEL in labels
        if is_passing or not any(own_phase(one, hook) for hook in one.get("webhooks") or ()):
            continue
        named = (one["kind"], one["metadata"]["name"]) in REGISTRATIONS
        if not named or home_of(one) not in ("", namespace):
            found.append(one)
    return found


def home_of(registration: Mapping[str, Any]) -> str:
    """The namespace of the Service that a registration calls; "" for a URL."""
    services = [
        (one.get("clientConfig") or {}).get("service") or {}
        for one in registration.get("webhooks") or ()
    ]
    return str(services[0].get("namespace", "")) if services else ""


def removal_commands(others: Iterable[Document]) -> str:
    """Return the shell commands that remove other genguards from the cluster."""
    ours = [one for one in others if (one["kind"], one["metadata"]["name"]) in REGISTRATIONS]
    homes = dict.fromkeys(home_of(one) for one in ours)
    named = [title_of(one) for one in others if one not in ours]
    return " && ".join(
        [f"genguard uninstall -n {home}" for home in homes]
        + [f"kubectl delete {' '.join(named)}"] * bool(named)
    )


def release_of(live: Mapping[str, Any]) -> str:
    """Return the Helm release that manages an object, as `NAME -n NAMESPACE`; "" if none does.

    Argo CD renders a chart without a release, and leaves the annotations out.
    """
    metadata = live["metadata"]
    annotations = metadata.get("annotations") or {}
    is_of_helm = (metadata.get("labels") or {}).get(MANAGED_BY) == "Helm"
    if not is_of_helm or _RELEASE not in annotations:
        return ""
    return f"{annotations[_RELEASE]} -n {annotations.get(_RELEASE_NAMESPACE, '')}"


def merged(registration: Document, live: Mapping[str, Any] | None) -> Document:
    """Return the registration with the rules of `live` for resources that it does not name.

    Users add such rules for custom resources. A rule with a wildcard is dropped, and any rule where
    Helm manages the registration: its values name them. A caBundle that another program writes is
    kept.
    """
    found = deepcopy(registration)
    is_of_helm = (registration["metadata"].get("labels") or {}).get(MANAGED_BY) == "Helm"
    there = {one.get("name"): one for one in (live or {}).get("webhooks") or ()}
    for webhook in found["webhooks"]:
        known = {pair for rule in webhook["rules"] for pair in _named(rule)}
        old = there.get(webhook["name"], {})
        added = [] if is_of_helm else old.get("rules") or ()
        webhook["rules"] += [rule for rule in added if _is_other(rule, known)]
        bundle = (old.get("clientConfig") or {}).get("caBundle")
        if bundle and "caBundle" not in webhook["clientConfig"]:
            webhook["clientConfig"]["caBundle"] = bundle
    return found


def _is_other(rule: Mapping[str, Any], known: set[tuple[str, str]]) -> bool:
    """Whether a rule names only other resources, and no wildcard."""
    pairs = set(_named(rule))
    return not pairs & known and not any("*" in word for pair in pairs for word in pair)


def _named(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each (group, resource) of a rule."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            yield group, resource


def _only(name: str) -> dict[str, Any]:
    return {"matchLabels": {_NAME: name}}


def probe(value: str, namespace: str, run: str = "") -> Document:
    """Return a PodTemplate: no controller acts on it, and most policies accept its pod."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": f"genguard-probe-{value}",
            "namespace": namespace,
            "annotations": {PROBE: value},
            "labels": {"app.kubernetes.io/name": "genguard-probe"} | ({RUN: run} if run else {}),
        },
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/name": "genguard-probe"}},
            "spec": {
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [_CONTAINER],
            },
        },
    }


def missing(seen: Collection[str], expected: Iterable[str]) -> list[str]:
    """Return the phases that have not seen a probe."""
    return [phase for phase in expected if phase not in seen]
