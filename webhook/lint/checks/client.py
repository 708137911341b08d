"""clientConfig: a webhook that leads nowhere."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, items, mapping, text

_DEFAULT_PORT: Final = 443


class Client:
    """See the module."""

    id: ClassVar[str] = "client-config"
    reason: ClassVar[str] = (
        "admissionregistration.k8s.io/v1 WebhookClientConfig: exactly one of url and service; "
        "port is a port of the Service, 443 by default, not of its pods"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """At most one finding a webhook."""
        client = mapping(hook.body.get("clientConfig"))
        service = mapping(client.get("service"))
        field = hook.field("clientConfig")
        if bool(service) == bool(text(client.get("url"))):
            message = "has not exactly one of url and service: say where the webhook is"
            yield told(self, Level.ERROR, hook, field, message)
            return
        if not service:
            return
        key = text(service.get("namespace")), text(service.get("name"))
        given = service.get("port", _DEFAULT_PORT)
        found = around.services.get(key)
        if not all(key):
            message = "the service has no name or no namespace: give both"
            yield told(self, Level.ERROR, hook, f"{field}.service", message)
        elif found is not None and not _has_port(found.get("ports"), given):
            message = f"the Service {key[0]}/{key[1]} has no port {given}: name one that it has"
            yield told(self, Level.ERROR, hook, f"{field}.service.port", message)


def _has_port(ports: object, given: object) -> bool:
    return any(mapping(one).get("port") == given for one in items(ports))
