"""clientConfig: where the API server calls the webhook."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, items, mapping, text

_DEFAULT_PORT: Final = 443


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a clientConfig that names no address, or a port that the Service does not have."""
    client = mapping(hook.body.get("clientConfig"))
    service = mapping(client.get("service"))
    field = hook.field("clientConfig")
    if bool(service) == bool(text(client.get("url"))):
        message = "must have either url or service: set exactly one of them"
        yield Problem(Level.ERROR, field, message)
        return
    if not service:
        return
    key = text(service.get("namespace")), text(service.get("name"))
    port = service.get("port", _DEFAULT_PORT)
    found = context.services.get(key)
    if not all(key):
        message = "the service has no name or no namespace: set both"
        yield Problem(Level.ERROR, f"{field}.service", message)
    elif found is not None and not _has_port(found.get("ports"), port):
        message = f"the Service {key[0]}/{key[1]} has no port {port}: set one of its ports"
        yield Problem(Level.ERROR, f"{field}.service.port", message)


def _has_port(ports: object, port: object) -> bool:
    return any(mapping(entry).get("port") == port for entry in items(ports))


CHECK: Final = Check(
    "client-config",
    "admissionregistration.k8s.io/v1 WebhookClientConfig: exactly one of url and service; "
    "port is a port of the Service, 443 by default, not of its pods",
    find_problems,
)
