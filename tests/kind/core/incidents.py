"""Plays public incidents small, all at the same time, beside a default install: incidents.yaml."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, wait_until
from tests.e2e.custom import definition

CUSTOM, SYSTEM = "custom resources", "kube-system"
_CLUSTER_SCOPED = ("webhook configurations", "nodes")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMESPACES = "/api/v1/namespaces"
_SECONDS, _MOST_WRITES = 17.0, 60
Json = dict[str, Any]
Ask = Callable[[str], Json]
"""Asks the ops port of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One row of the file, which says what each field is; `part` is where it stands."""

    part: str
    incident: str
    resource: str
    kind: str
    by: Sequence[str]
    field: str
    object: Json
    writes: Sequence[Json]
    finds: str
    to: str = ""
    pause: float = 0.7
    named: Sequence[str] = ()

    @property
    def path(self) -> str:
        """Where the object is."""
        version, _, plural = self.resource.rpartition("/")
        inside = f"/namespaces/{SYSTEM if self.part == SYSTEM else 'incidents'}"
        inside = "" if self.part in _CLUSTER_SCOPED else inside
        name = self.incident.rpartition("/")[2].replace("#", "-").lower()
        return f"/{'apis' if '/' in version else 'api'}/{version}{inside}/{plural}/{name}"

    def definition(self) -> Json:
        """What defines a custom resource."""
        group, version, plural = self.resource.split("/")
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        made = definition(group, plural, self.kind, schema, status=bool(self.to))
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
        made["spec"]["versions"][0]["name"] = version
        return made

    def play(self, client: Client) -> None:
        """Create the object, and let the writers take turns."""
        collection, _, name = self.path.rpartition("/")
        body = {"apiVersion": self.resource.rpartition("/")[0], "kind": self.kind, **self.object}
        body["metadata"] = {"name": name, **body.get("metadata", {})}
        wait_until(lambda: client.post(collection, body), what=self.incident)
        for turn in range(min(_MOST_WRITES, int(_SECONDS / self.pause))):
            time.sleep(self.pause)
            text = json.dumps(self.writes[turn % len(self.writes)])
            who = self.by[turn % len(self.by)]
            client.as_user(f"system:serviceaccount:{who}", ["system:masters"]).patch(
                f"{self.path}/{self.to}".rstrip("/"),
                json.loads(text.replace("$turn", str(10 + turn))),
                content_type=None if self.part == CUSTOM else STRATEGIC_MERGE_PATCH,
                params={"fieldManager": who.rpartition(":")[2]},
            )
        client.close()

    def is_told(self, one: Json) -> bool:
        """Whether a finding is that of the object, and names those who write it and nobody else."""
        name, wanted = self.path.rpartition("/")[2], self.named or self.by
        users = {f"system:serviceaccount:{who}" for who in wanted}
        managers = {who.rpartition(":")[2] for who in wanted}
        named = {actor["name"] for actor in one["actors"]}
        is_of_it = (one["object"]["name"], one["detector"]) == (name, self.finds)
        return is_of_it and named in (users, managers)


def missed(client: Client, install: Callable[..., object], ask: Ask) -> dict[str, list[str]]:
    """Play all; by part of the file the numbers of those that are not told as wanted.

    `install` runs `genguard install` again, with these flags more than by default.
    """
    rows = yaml.safe_load(Path(__file__).with_name("incidents.yaml").read_text())
    parts = {part: [Incident(part=part, **row) for row in some] for part, some in rows.items()}
    client.post(_NAMESPACES, {"metadata": {"name": "incidents"}})
    definitions = [one.definition() for one in parts[CUSTOM]]
    for one in definitions:
        client.post(_DEFINITIONS, one)
    install()  # it may read API groups that came after the first one
    for asked in (f"/api/findings?kind={one['metadata']['name']}" for one in definitions):
        wait_until(lambda asked=asked: not ask(asked)["note"], every=1, what=asked)
    left = _missed([one for part in parts if part != SYSTEM for one in parts[part]], client, ask)
    told = ask(f"/api/findings?namespace={SYSTEM}")["note"]
    hint = "repeat the install with its flags and --include-kube-system"
    assert told == f"kube-system is not watched: {hint}"
    install("--include-kube-system")
    left += _missed(parts[SYSTEM], client, ask)
    for one in definitions:
        client.delete(f"{_DEFINITIONS}/{one['metadata']['name']}")
    client.delete(f"{_NAMESPACES}/incidents")
    return {part: [one.incident for one in some if one in left] for part, some in parts.items()}


def _missed(some: Sequence[Incident], client: Client, ask: Ask) -> list[Incident]:
    def left() -> list[Incident]:
        found = ask("/api/findings?state=all&limit=1000")["findings"]
        return [one for one in some if not any(map(one.is_told, found))]

    with ThreadPoolExecutor(len(some)) as pool:
        list(pool.map(lambda one: one.play(client), some))
    with suppress(TimeoutError):
        wait_until(lambda: not left(), every=1)
    found = left()
    for one in some:
        client.delete(one.path)
    return found
