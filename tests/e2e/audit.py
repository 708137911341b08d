"""What the API server's audit log says of one namespace: each request and its annotations."""

import json
from collections.abc import Mapping
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.e2e.registrations import MUTATE


class AuditTrail:
    """Begins where the log ends when it is made, and grows as it is asked."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._path = plane.audit_log
        self._namespace = namespace
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self._events: list[dict[str, Any]] = []

    def events(self, resource: str, **wanted: str) -> list[dict[str, Any]]:
        """Every request so far to `resource` (`pods/status`), with these fields of objectRef."""
        plural, _, subresource = resource.partition("/")
        about = {"resource": plural, **wanted} | (
            {"subresource": subresource} if subresource else {}
        )
        return [
            event
            for event in self.all_events()
            if about.items() <= event["objectRef"].items()
            and event["objectRef"].get("subresource", "") == subresource
        ]

    def all_events(self) -> list[dict[str, Any]]:
        """Every request so far about an object in the namespace, or of its name."""
        if not self._path.exists():
            return self._events
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                event = json.loads(line)
                about = event.get("objectRef", {})
                if self._namespace in (about.get("namespace"), about.get("name")):
                    self._events.append(event)
        return self._events

    def said(self, resource: str, **wanted: str) -> list[Mapping[str, str]]:
        """genguard's own annotations of each of these requests that has any, without prefix."""
        return [found for event in self.events(resource, **wanted) if (found := said(event))]


def said(event: Mapping[str, Any], webhook: str = MUTATE) -> dict[str, str]:
    """The audit annotations of one webhook in one event, by the webhook's own keys."""
    prefix = f"{webhook}/"
    annotations: Mapping[str, str] = event.get("annotations", {})
    return {
        key.removeprefix(prefix): value
        for key, value in annotations.items()
        if key.startswith(prefix)
    }


def patched_by(event: Mapping[str, Any], webhook: str = MUTATE) -> list[str]:
    """The rounds in which this webhook changed the object (mutation.webhook.admission.k8s.io)."""
    rounds = []
    for key, value in event.get("annotations", {}).items():
        if key.startswith("mutation.webhook.admission.k8s.io/round_"):
            found = json.loads(value)
            if found["webhook"] == webhook and found["mutated"]:
                rounds.append(key.partition("/")[2].split("_")[1])
    return sorted(rounds)
