"""The documents of one installation: an overlay of manifests/, and what somebody chose."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import yaml

from certs.files import CA_FILE, CERT_FILE, KEY_FILE, PairSnapshot
from webhook.manifest.documents import ALERTMANAGER, arguments_of, containers_of
from webhook.manifest.kustomize import Document, Read, build

NAMESPACE: Final = "genguard-system"
"""The namespace that the files name; another takes its place wherever it stands."""

SECRET: Final = "genguard-tls"  # noqa: S105 - its name
STORE_SECRET: Final = "genguard-store"  # noqa: S105 - its name
MOUNT: Final = PurePosixPath("/etc/genguard/store")
"""Where the pods have the Secret's keys as files."""

PASSWORD: Final = "password"  # noqa: S105 - the name of a key
"""The key of the Secret that the Valkey of manifests/valkey reads."""

KEY: Final = "key"
"""The key of the Secret by which replicas seal what they share: the store never sees it."""

PHASES: Final = ("intent", "mutate", "outcome")
INJECTED: Final = "cert-manager.io/inject-ca-from"
"""The annotation by which cert-manager sees to a caBundle."""

INJECTORS: Final = (
    INJECTED,
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
)
"""Annotations of a configuration whose caBundle is written by somebody else."""

REGISTRATIONS: Final = (
    ("MutatingWebhookConfiguration", "0--genguard-intent"),
    ("MutatingWebhookConfiguration", "zzzzzz-genguard-mutate"),
    ("ValidatingWebhookConfiguration", "zzzzzz-genguard-outcome"),
)
"""Kind and name, as base/registrations has them."""

FINDINGS: Final = "genguard-findings"
"""The ConfigMap of open findings, which the server makes in its own namespace."""

_HA: Final = "overlays/ha"
_TLS: Final = "tls"
_REGISTRATIONS: Final = "base/registrations"
_FLAG: Final = "--store="
_SHARED: Final = ("valkey", "valkeys", "redis", "rediss")
_VOLUME: Final = "store"


@dataclass(frozen=True, slots=True)
class Outside:
    """A server that runs outside the cluster: https://HOST:PORT, and the bundle it is known by."""

    url: str
    ca_pem: bytes


@dataclass(frozen=True, slots=True)
class SharedStore:
    """What --store takes in a pod, and the host and port in it."""

    address: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Choices:
    """What the flags of `install` say. With `outside`, only registrations are rendered.

    heal      lost values are put back by patches of status, when enforcing
    ha        replicas that judge as one, through `store`; without it through a Valkey of their own
    store_image  the image of that Valkey; without it that of the manifests
    replicas  how many pods; without it as many as the manifests say
    api_servers  CIDRs whence the webhook port may be reached; without any, from everywhere
    alertmanagers  URLs that findings are sent to as alerts
    """

    audit_only: bool = False
    namespace: str = NAMESPACE
    image: str | None = None
    cert_manager: bool = False
    outside: Outside | None = None
    heal: bool = True
    ha: bool = False
    store: SharedStore | None = None
    store_image: str | None = None
    replicas: int | None = None
    api_servers: tuple[str, ...] = ()
    alertmanagers: tuple[str, ...] = ()

    @property
    def brings_store(self) -> bool:
        """Whether a Valkey is installed beside the pods."""
        return self.ha and self.store is None and self.outside is None


def render(choices: Choices, read: Read, pair: Mapping[str, bytes]) -> list[Document]:
    """Every document, as kustomize renders the overlay, in its order.

    `pair` holds tls.crt, tls.key and ca.crt; it is not asked for with `outside` or `cert_manager`.
    Raises UnreadableManifestError.
    """
    if choices.outside is not None:
        documents = build(_REGISTRATIONS, read)
        for one in documents:
            _divert(one, choices.outside)
    else:
        overlay = f"overlays/{_mode(choices)}" if not choices.ha else _HA
        documents = build(overlay, _reading(choices, read, pair))
    for one in documents:
        if choices.image is not None:
            _set_image(one, "Deployment", choices.image)
        if choices.store_image is not None:
            _set_image(one, "StatefulSet", choices.store_image)
        if choices.store is not None:
            use(one, choices.store)
        if choices.replicas is not None:
            _scale(one, choices.replicas)
        if choices.api_servers and one["kind"] == "NetworkPolicy":
            limit_callers(one, choices.api_servers)
        _send_alerts(one, choices.alertmanagers)
    return [_moved(one, choices.namespace) for one in documents]


def is_registration(document: Mapping[str, Any]) -> bool:
    """A webhook configuration, which comes after the server."""
    return str(document["kind"]).endswith("WebhookConfiguration")


def phase_of(webhook: Mapping[str, Any]) -> str:
    """intent, mutate or outcome: the first part of the webhook's name."""
    return str(webhook["name"]).partition(".")[0]


def secret_of(namespace: str, name: str = SECRET) -> Document:
    """Where the pair is."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def registration_of(kind: str, name: str) -> Document:
    """Which of the REGISTRATIONS is meant."""
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def pair_files(pair: PairSnapshot) -> dict[str, bytes]:
    """The pair under the names that kustomize would read."""
    return {CERT_FILE: pair.cert_pem, KEY_FILE: pair.key_pem, CA_FILE: pair.ca_pem or b""}


def as_yaml(documents: Iterable[Document]) -> str:
    """As `kubectl apply -f -` takes them."""
    return yaml.safe_dump_all(documents, sort_keys=True, width=100, allow_unicode=True)


def _reading(choices: Choices, read: Read, pair: Mapping[str, bytes]) -> Read:
    """The files, with the pair where a user of kustomize would have put it."""

    def reading(path: str) -> bytes:
        folder, _, name = path.rpartition("/")
        if folder == _TLS and name in pair:
            return pair[name]
        content = read(path)
        if path.startswith("overlays/"):
            content = _chosen(choices, content)
        return content

    return reading


def _chosen(choices: Choices, overlay: bytes) -> bytes:
    """An overlay with the mode and the components that were chosen."""
    overlay = overlay.replace(b"../enforce", f"../{_mode(choices)}".encode())
    if choices.cert_manager:
        overlay = overlay.replace(b"../../tls", b"../../cert-manager")
    if not choices.heal:
        overlay = overlay.replace(b"  - ../../heal\n", b"")
    if choices.store is not None:
        overlay = overlay.replace(b"  - ../../valkey\n", b"")
    return overlay


def _mode(choices: Choices) -> str:
    return "audit-only" if choices.audit_only else "enforce"


def _divert(registration: Document, outside: Outside) -> None:
    bundle = base64.b64encode(outside.ca_pem).decode()
    for webhook in registration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": outside.url + path, "caBundle": bundle}


def _set_image(document: Document, kind: str, image: str) -> None:
    if document["kind"] == kind:
        for container in containers_of(document):
            container["image"] = image


def _scale(document: Document, replicas: int) -> None:
    """So many pods, one more while they are replaced, and a Valkey."""
    if document["kind"] == "Deployment":
        document["spec"]["replicas"] = replicas
    elif document["kind"] == "ResourceQuota":
        hard = document["spec"]["hard"]
        hard["pods"] = str(max(int(hard["pods"]), replicas + 2))


def _send_alerts(document: Document, alertmanagers: tuple[str, ...]) -> None:
    """Give the pods these Alertmanagers, and a way out to each."""
    if document["kind"] == "Deployment":
        for container in containers_of(document):
            container["args"] += [f"{ALERTMANAGER}{url}" for url in alertmanagers]
    elif document["kind"] == "NetworkPolicy":
        for url in alertmanagers:
            found = urlsplit(url)
            port = found.port or (443 if found.scheme == "https" else 80)
            document["spec"]["egress"].append(way_out(found.hostname or "", port))


def _moved(value: Any, namespace: str) -> Any:
    """The same with another namespace: in names, selectors, subjects and CEL expressions."""
    if isinstance(value, str):
        return value.replace(NAMESPACE, namespace)
    if isinstance(value, list):
        return [_moved(one, namespace) for one in value]
    if isinstance(value, dict):
        return {key: _moved(one, namespace) for key, one in value.items()}
    return value


def store_of(deployment: Mapping[str, Any]) -> str:
    """The address that the pods are given; "" where they share none."""
    found = [one.removeprefix(_FLAG) for one in arguments_of(deployment) if one.startswith(_FLAG)]
    return found[0] if found and urlsplit(found[0]).scheme in _SHARED else ""


def keys_of(deployment: Mapping[str, Any]) -> tuple[str, ...]:
    """Which keys of the Secret the address names as files."""
    named = parse_qsl(urlsplit(store_of(deployment)).query)
    files = (PurePosixPath(value) for _, value in named)
    return tuple(one.name for one in files if one.parent == MOUNT)


def store_secret(namespace: str, values: Mapping[str, bytes]) -> dict[str, Any]:
    """The Secret of an own Valkey: its PASSWORD, and the KEY of the replicas."""
    labels = {"app.kubernetes.io/name": "genguard", "app.kubernetes.io/component": "server"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": STORE_SECRET, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in values.items()},
    }


def use(document: dict[str, Any], store: SharedStore) -> None:
    """Put this address where the documents of overlays/ha have theirs."""
    if document["kind"] == "Deployment":
        _address(document, store)
    elif document["kind"] == "NetworkPolicy":
        # The component adds its rule last.
        document["spec"]["egress"][-1] = way_out(store.host, store.port)


def _address(deployment: dict[str, Any], store: SharedStore) -> None:
    pod = deployment["spec"]["template"]["spec"]
    for container in containers_of(deployment):
        container["args"] = [
            f"{_FLAG}{store.address}" if one.startswith(_FLAG) else one for one in container["args"]
        ]
    if not keys_of(deployment):
        pod["volumes"] = [one for one in pod["volumes"] if one["name"] != _VOLUME]
        for container in containers_of(deployment):
            mounts = container["volumeMounts"]
            container["volumeMounts"] = [one for one in mounts if one["name"] != _VOLUME]


def limit_callers(policy: dict[str, Any], api_servers: tuple[str, ...]) -> None:
    """Let only these CIDRs reach the webhook port."""
    for rule in policy["spec"]["ingress"]:
        if any(port["port"] == "webhook" for port in rule["ports"]):
            rule["from"] = [{"ipBlock": {"cidr": cidr}} for cidr in api_servers]


def callers_of(document: Mapping[str, Any]) -> Iterator[str]:
    """The CIDRs that `limit_callers` has put into a NetworkPolicy; none for other documents."""
    if document["kind"] != "NetworkPolicy":
        return
    for rule in document["spec"].get("ingress") or ():
        if any(port.get("port") == "webhook" for port in rule.get("ports") or ()):
            sources = rule.get("from") or ()
            yield from (one["ipBlock"]["cidr"] for one in sources if "ipBlock" in one)


def way_out(host: str, port: int) -> dict[str, Any]:
    """An egress rule that lets pods call this host and TCP port.

    The rule names the namespace of a Service (`NAME.NAMESPACE.svc`), or the IP address. Any other
    name may lead anywhere, so its rule allows the port to every address.
    """
    rule: dict[str, Any] = {"ports": [{"port": port, "protocol": "TCP"}]}
    try:
        address = ip_address(host)
    except ValueError:
        match host.split("."):
            case [_, namespace, "svc", *_]:
                labels = {"kubernetes.io/metadata.name": namespace}
                rule["to"] = [{"namespaceSelector": {"matchLabels": labels}}]
    else:
        rule["to"] = [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}]
    return rule
