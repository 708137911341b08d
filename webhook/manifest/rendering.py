"""Make the documents of one installation, and the command that makes the same again.

They are a combination of components, and the chosen options.

manifests/rendered.json has what kustomize makes of each combination; `make chart` writes it.
"""

import base64
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml

from certs.pem import CA_FILE, CERT_FILE, KEY_FILE
from genguard.admission.matching import NAME_LABEL
from webhook.manifest.documents import (
    ALERTMANAGER,
    AUDIT_ONLY,
    CLUSTER_NAME,
    FOLLOW,
    HEAL,
    KUBE_SYSTEM,
    NAMESPACE,
    STANDBY,
    WATCH_FIGHTS,
    Document,
    arguments_of,
    containers_of,
    path_of,
)

SECRET: Final = "genguard-tls"  # noqa: S105 - its name
STORE_SECRET: Final = "genguard-store"  # noqa: S105 - its name
MOUNT: Final = PurePosixPath("/etc/genguard/store")
"""The folder in which the pods mount the Secret."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a key
"""The key of the Secret with the password of the Valkey in manifests/valkey."""
PHASES: Final = ("intent", "mutate", "outcome")
REGISTRATIONS: Final = (
    ("MutatingWebhookConfiguration", "0--genguard-intent"),
    ("MutatingWebhookConfiguration", "zzzzzz-genguard-mutate"),
    ("ValidatingWebhookConfiguration", "zzzzzz-genguard-outcome"),
)
"""Kind and name of each registration in base/registrations."""
FINDINGS: Final = "genguard-findings"
"""The ConfigMap of open findings, which the server creates in its namespace."""
WATCH_ROLE: Final = "genguard-watch"
"""The ClusterRole with what is watched beside the registrations."""
RENDERED: Final = "rendered.json"
REGISTRATIONS_ALONE: Final = "registrations"
"""The name of the combination without a server."""
NO_PAIR: Final = MappingProxyType(dict.fromkeys((CERT_FILE, KEY_FILE, CA_FILE), b""))
_FLAG: Final = "--store="
_SHARED: Final = ("valkey", "valkeys", "redis", "rediss")
Live = Mapping[str, Document | None]
"""The objects that exist, by path; None where one is missing."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A server outside the cluster: https://HOST:PORT, and its CA bundle."""

    url: str
    ca_pem: bytes


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `install`. With `outside`, only registrations are rendered.

    heal           restore lost values by patches of status, when enforcing
    follow         the server keeps the registrations as narrow as what they can show
    ha             several replicas that all answer, with a shared store: that of `store`, as
                   serve --store takes it, or a Valkey
                   installed with them; otherwise one is active and the others stand by
    store_image    the image of that Valkey; default: the image in the manifests
    replicas       the number of pods; default: the number in the manifests
    api_servers    CIDRs that may reach the webhook port; default: all
    alertmanagers  URLs to which findings are sent as alerts
    watch_kinds    more kinds that are watched, as kubectl names them
    watch_groups   the API groups of custom resources, all of which may be read
    include_kube_system  the registrations do not leave this namespace out
    cluster_name   what the dashboard calls the cluster
    """

    audit_only: bool = False
    namespace: str = NAMESPACE
    image: str | None = None
    cert_manager: bool = False
    outside: Outside | None = None
    heal: bool = True
    follow: bool = True
    ha: bool = False
    store: str | None = None
    store_image: str | None = None
    replicas: int | None = None
    api_servers: tuple[str, ...] = ()
    alertmanagers: tuple[str, ...] = ()
    watch_kinds: tuple[str, ...] = ()
    watch_groups: tuple[str, ...] = ()
    include_kube_system: bool = False
    cluster_name: str = ""


def render(
    choices: Choices, read: Callable[[str], bytes], pair: Mapping[str, bytes] = NO_PAIR
) -> list[Document]:
    """Make all documents, in kustomize's order. `read` returns a file of manifests/.

    `pair` holds tls.crt, tls.key and ca.crt. The Secret gets it, and each registration gets ca.crt;
    it is not used with `outside` or `cert_manager`.
    """
    # In every text: names, subjects, CEL expressions. Before the user's own values come in: they
    # may name another namespace that is called so.
    namespace = msgspec.json.encode(choices.namespace)[1:-1]
    found = msgspec.json.decode(read(RENDERED).replace(NAMESPACE.encode(), namespace))
    needed = found["combinations"][_combination(choices)]
    documents = [found["documents"][index] for index in needed]
    for document in documents:
        _fill(document, choices, pair)
    return documents


def is_registration(document: Mapping[str, Any]) -> bool:
    """Whether the document is a webhook configuration."""
    return str(document["kind"]).endswith("WebhookConfiguration")


def phase_of(webhook: Mapping[str, Any]) -> str:
    """Return intent, mutate or outcome: the first part of the webhook's name."""
    return str(webhook["name"]).partition(".")[0]


def secret_of(namespace: str, name: str = SECRET) -> Document:
    """Return the head of a Secret: type and name, no data."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def deployment_of(namespace: str) -> Document:
    """Return the head of the server's Deployment: type and name, no spec."""
    metadata = {"name": "genguard", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


def registration_of(kind: str, name: str) -> Document:
    """Return the head of one of the REGISTRATIONS: type and name."""
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def as_yaml(documents: Iterable[Document]) -> str:
    """Return the documents as YAML for `kubectl apply -f -`."""
    return yaml.safe_dump_all(documents, sort_keys=True, width=100, allow_unicode=True)


def _combination(choices: Choices) -> str:
    """The name of the combination that these choices need."""
    if choices.outside is not None:
        return REGISTRATIONS_ALONE
    parts = ["audit-only" if choices.audit_only else "enforce"]
    parts.append("cert-manager" if choices.cert_manager else "tls")
    if choices.ha:
        parts += ["replicas"] if choices.store is not None else ["valkey", "replicas"]
    if choices.follow:
        parts.append("follow")
    if choices.heal and not choices.audit_only:
        parts.append("heal")
    return " ".join(parts)


def _fill(document: Document, choices: Choices, pair: Mapping[str, bytes]) -> None:
    """Write what was chosen, and the pair, into a document."""
    spec = document.get("spec") or {}
    match document["kind"]:
        case "Secret":
            document["type"] = "kubernetes.io/tls"
            document["data"] = {name: _base64(content) for name, content in pair.items()}
        case "Deployment":
            spec["replicas"] = choices.replicas or spec["replicas"]
            kinds = [f"{WATCH_FIGHTS}{','.join(choices.watch_kinds)}"] * bool(choices.watch_kinds)
            name = [f"{CLUSTER_NAME}{choices.cluster_name}"] * bool(choices.cluster_name)
            for container in containers_of(document):
                container["image"] = choices.image or container["image"]
                container["args"] = [
                    f"{_FLAG}{choices.store}" if choices.store and arg.startswith(_FLAG) else arg
                    for arg in container["args"]
                ] + [*(f"{ALERTMANAGER}{url}" for url in choices.alertmanagers), *kinds, *name]
        case "ClusterRole" if document["metadata"]["name"] == WATCH_ROLE:
            document["rules"] += _watched(choices)
        case "StatefulSet":
            for container in containers_of(document):
                container["image"] = choices.store_image or container["image"]
        case "ResourceQuota":  # it also allows one more during a rollout, and a Valkey
            spec["hard"]["pods"] = str(max(int(spec["hard"]["pods"]), (choices.replicas or 0) + 2))
        case "NetworkPolicy":
            _let_through(spec, choices)
        case _ if is_registration(document):
            _lead(document, choices, pair)


def _watched(choices: Choices) -> Iterator[Document]:
    """Yield rules to watch kinds, and all of some groups: RBAC cannot leave a Secret out of `*`."""
    named = [kind.partition(".") for kind in choices.watch_kinds]
    rules = [(group, resource) for resource, _, group in named]
    for group, resource in (
        *((group, "*") for group in choices.watch_groups if "." in group),
        *rules,
    ):
        yield {"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}


def _excluded(registration: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the names of namespaces that each webhook leaves out."""
    for webhook in registration["webhooks"]:
        selector = webhook.get("namespaceSelector") or {}
        for expression in selector.get("matchExpressions") or ():
            if expression["operator"] == "NotIn" and expression["key"] == NAME_LABEL:
                yield expression["values"]


def _lead(registration: Document, choices: Choices, pair: Mapping[str, bytes]) -> None:
    """Have a registration trust the authority of the pair, or lead to a server outside."""
    for names in _excluded(registration) if choices.include_kube_system else ():
        names.remove(KUBE_SYSTEM)
    for client in (webhook["clientConfig"] for webhook in registration["webhooks"]):
        if choices.outside is not None:
            client["url"] = choices.outside.url + client.pop("service")["path"]
            client["caBundle"] = _base64(choices.outside.ca_pem)
        elif not choices.cert_manager:
            client["caBundle"] = _base64(pair[CA_FILE])


def _let_through(spec: Document, choices: Choices) -> None:
    """Let pods reach the store and each Alertmanager, and only who is named the webhook port."""
    if choices.store is not None:
        spec["egress"][-1] = _way_to(choices.store, 6379)  # the rule of the component is the last
    for url in choices.alertmanagers:
        spec["egress"].append(_way_to(url, 443 if url.startswith("https:") else 80))
    for rule in spec["ingress"] if choices.api_servers else ():
        if "from" not in rule and any(port["port"] == "webhook" for port in rule["ports"]):
            rule["from"] = [{"ipBlock": {"cidr": cidr}} for cidr in choices.api_servers]


def _way_to(url: str, usual_port: int) -> dict[str, Any]:
    """Return an egress rule that allows calls to the host and TCP port of a URL.

    The rule selects the namespace of a Service (`NAME.NAMESPACE.svc`), or the IP address. Any other
    name may resolve to any address, so its rule allows the port everywhere.
    """
    at = urlsplit(url)
    host = at.hostname or ""
    rule: dict[str, Any] = {"ports": [{"port": at.port or usual_port, "protocol": "TCP"}]}
    try:
        address = ip_address(host)
    except ValueError:
        match host.split("."):
            case [_, namespace, "svc", *_]:
                rule["to"] = [{"namespaceSelector": {"matchLabels": {NAME_LABEL: namespace}}}]
    else:
        rule["to"] = [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}]
    return rule


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def store_of(deployment: Mapping[str, Any]) -> str:
    """The address of the shared store in a Deployment; "" if there is none."""
    found = [
        argument.removeprefix(_FLAG)
        for argument in arguments_of(deployment)
        if argument.startswith(_FLAG)
    ]
    return found[0] if found and urlsplit(found[0]).scheme in _SHARED else ""


def store_secret(namespace: str, password: str) -> dict[str, Any]:
    """Return the Secret of the installed Valkey: its PASSWORD."""
    labels = {"app.kubernetes.io/name": "genguard", "app.kubernetes.io/component": "server"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": STORE_SECRET, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {PASSWORD: _base64(password.encode())},
    }


def _callers_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Return the CIDRs that a NetworkPolicy allows on the webhook port."""
    if document["kind"] != "NetworkPolicy":
        return
    for rule in document["spec"].get("ingress") or ():
        if any(port.get("port") == "webhook" for port in rule.get("ports") or ()):
            sources = rule.get("from") or ()
            yield from (source["ipBlock"]["cidr"] for source in sources if "ipBlock" in source)


def install_command(
    namespace: str,
    expected: Iterable[Document],
    live: Live,
    *,
    is_injected: bool,
    enforces: bool = False,
) -> str:
    """Return `genguard install` with the flags that make the same objects again.

    expected     what `install` would apply
    is_injected  whether cert-manager writes the CA bundles
    enforces     whether --audit-only is left out; it is there without a Deployment
    """
    expected = tuple(expected)
    flags = [] if namespace == NAMESPACE else ["-n", namespace]
    if is_injected:
        flags.append("--cert-manager")
    deployment = installed_deployment(live)
    if deployment is not None:
        flags += _shared(deployment, expected)
        flags += _arguments(deployment, enforces=enforces)
    elif not enforces:
        flags.append(AUDIT_ONLY)
    flags += _included(live)
    callers = [cidr for document in live.values() if document for cidr in _callers_of(document)]
    if callers:
        flags += ["--api-server-cidr", ",".join(callers)]
    flags += _images(expected, live)
    return " ".join(("genguard install", *flags))


def installed_deployment(live: Live) -> Document | None:
    """Return the Deployment of the server, None without one."""
    found = filter(None, live.values())
    return next((document for document in found if document["kind"] == "Deployment"), None)


def default_replicas(expected: Iterable[Document]) -> int:
    """Return how many pods `install` would make."""
    deployments = (document for document in expected if document["kind"] == "Deployment")
    return next((deployment["spec"]["replicas"] for deployment in deployments), 1)


def _shared(deployment: Document, expected: Iterable[Document]) -> Iterator[str]:
    """The flags for replicas, and for their shared store if they have one."""
    address, replicas = store_of(deployment), deployment["spec"].get("replicas", 1)
    if address:
        yield "--ha"
        if not any(document["kind"] == "StatefulSet" for document in expected):
            yield from ("--store", shlex.quote(address))
    elif STANDBY not in arguments_of(deployment):
        return  # several that answer, without a store, are an error: do not install them again
    # Zero replicas are an error, too.
    if replicas not in (0, default_replicas(expected)):
        yield from ("--replicas", str(replicas))


def _arguments(deployment: Document, *, enforces: bool) -> Iterator[str]:
    """The flags that are arguments of the server as well."""
    arguments = arguments_of(deployment)
    if AUDIT_ONLY not in arguments and HEAL not in arguments:
        yield "--no-heal"
    elif AUDIT_ONLY in arguments and not enforces:
        yield AUDIT_ONLY
    if FOLLOW not in arguments:
        yield from ("--registrations", "fixed")
    for argument in arguments:
        if argument.startswith(ALERTMANAGER):
            yield from ("--alertmanager", shlex.quote(argument.removeprefix(ALERTMANAGER)))
        if argument.startswith(WATCH_FIGHTS):
            yield from ("--watch-kinds", shlex.quote(argument.removeprefix(WATCH_FIGHTS)))


def _included(live: Live) -> Iterator[str]:
    """The flag for a namespace that no registration leaves out."""
    registered = [document for document in live.values() if document and is_registration(document)]
    left_out = [names for document in registered for names in _excluded(document)]
    if left_out and not any(KUBE_SYSTEM in names for names in left_out):
        yield "--include-kube-system"


def _images(expected: Iterable[Document], live: Live) -> Iterator[str]:
    """The flags for images that differ from the manifests."""
    flags = {"Deployment": "--image", "StatefulSet": "--store-image"}
    for wanted in expected:
        flag, found = flags.get(wanted["kind"]), live.get(path_of(wanted))
        if flag and found:
            images = {container["image"] for container in containers_of(wanted)}
            for container in containers_of(found):
                if container.get("image") not in {None, *images}:
                    yield from (flag, shlex.quote(str(container["image"])))
