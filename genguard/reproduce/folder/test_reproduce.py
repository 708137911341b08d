"""The loop of loop.json on a fake API server: red with the culprit, green without it.

WITHOUT_CULPRIT=1 pytest        what the recording shows, but without the culprit
WEBHOOK_URL=https://... pytest  with your webhook in its place; WEBHOOK_CA names a file of its CA
"""

import copy
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from genguard.testing import FakeApiServer, MutatingWebhook, RequestRefusedError, assert_no_loop

LOOP = json.loads(Path(__file__).with_name("loop.json").read_text())
WITHOUT_CULPRIT = bool(os.environ.get("WITHOUT_CULPRIT"))
EXPECTED = (404, 409)
"""What is there, or is gone, by turns."""


class Clock:
    """The time of the fake API server: nobody waits."""

    def __init__(self) -> None:
        """Begin with a year."""
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.at


@pytest.fixture
def clock() -> Clock:
    """The time of the fake API server."""
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[FakeApiServer]:
    """An API server with what is there at the beginning, and its webhooks."""
    version = LOOP["serverVersion"]
    with FakeApiServer(
        *LOOP["definitions"], server_version=version, webhooks=webhooks(), now=clock
    ) as started:
        for name in sorted({one["namespace"] for one in LOOP["writes"]} - {"", "default"}):
            started.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for one in LOOP["objects"]:
            started.create(one["document"], user="somebody")
        yield started


def test_the_writes_come_to_rest(server: FakeApiServer, clock: Clock) -> None:
    """All writes in turn make no loop."""
    random.seed(1)
    sent = 0
    for turn, (place, change) in zip(range(LOOP["played"]), itertools.cycle(LOOP["order"])):
        write = LOOP["writes"][place]
        if not (WITHOUT_CULPRIT and write["user"] == LOOP["culprit"]):
            clock.at += timedelta(seconds=LOOP["seconds"] * random.uniform(0.5, 1.5))
            sent += send(server, write, change, turn)
    if sent:
        assert_no_loop(server, at_least=LOOP["severity"])


def send(server: FakeApiServer, write: dict[str, Any], change: int, turn: int) -> bool:
    """Send one write as its user; return whether the server took it, or refused it for good."""
    where = write["resource"], write["name"], write["namespace"] or "default"
    REFUSES.now = bool(write.get("refused"))
    try:
        if write["verb"] == "delete":
            name = write["changes"][change]["metadata"]["name"]
            background = {"propagationPolicy": "Background"}
            server.delete(where[0], name, where[2], options=background, user=write["user"])
        elif write["verb"] == "create":
            server.create(change_of(server, write, change, turn), user=write["user"])
        elif write["verb"] == "put":
            document = change_of(server, write, change, turn)
            document["metadata"]["resourceVersion"] = "1"
            server.update(document, subresource=write.get("subresource", ""), user=write["user"])
        else:
            server.patch(
                *where[:2],
                change_of(server, write, change, turn),
                where[2],
                subresource=write.get("subresource", ""),
                user=write["user"],
            )
    except RequestRefusedError as error:
        if write["verb"] == "put" or write.get("refused"):
            return True
        if error.status not in EXPECTED:
            raise
        return False
    return True


def change_of(
    server: FakeApiServer, write: dict[str, Any], change: int, turn: int
) -> dict[str, Any]:
    """Return what a write asks for in its turn."""
    if write["verb"] == "move":
        is_custom = "." in write["resource"].partition(".")[2]
        return {"spec": {"moved" if is_custom else "minReadySeconds": turn}}
    made: dict[str, Any] = copy.deepcopy(write["changes"][change])
    for field in write.get("renewed", ()):
        above, last = holder(made, field)
        if last in above:
            above[last] = another(above[last], turn)
    for one in write.get("held", ()):
        above, last = holder(made, one["field"])
        if last in above:
            resource, namespace, name = one.get("object") or (
                write["resource"],
                write["namespace"],
                write["name"],
            )
            metadata = server.get(resource, name, namespace or "default")["metadata"]
            number = metadata[one["what"]]
            above[last] = number + one.get("offset", 0) if one["what"] == "generation" else number
    return made


def holder(document: dict[str, Any], field: list[str]) -> tuple[dict[str, Any], str]:
    """Return what a field is in, and its name there; an empty object where that is not there."""
    *above, last = field
    for name in above:
        inner = document.get(name)
        document = inner if isinstance(inner, dict) else {}
    return document, last


def another(value: Any, turn: int) -> Any:
    """Return another value than in each other turn."""
    if isinstance(value, int):
        return 1_000 + turn
    if isinstance(value, str) and value.startswith("2026-01-01T"):
        return f"2026-01-01T00:{turn // 60:02}:{turn % 60:02}Z"
    return f"{value}-{turn}"


def webhooks() -> list[MutatingWebhook]:
    """Return the culprit, where it is a webhook, and who refuses writes."""
    found = []
    resources = sorted({one["resource"] for one in LOOP["effects"]})
    if resources and not WITHOUT_CULPRIT:
        answer = os.environ.get("WEBHOOK_URL") or Culprit()
        ca_file = os.environ.get("WEBHOOK_CA")
        found.append(MutatingWebhook("culprit", answer, resources, ca_file=ca_file))
    refused = {
        f"{one['resource']}/{one.get('subresource', '')}".rstrip("/")
        for one in LOOP["writes"]
        if one.get("refused")
    }
    if refused and not (WITHOUT_CULPRIT and resources):  # a culprit makes what is refused
        found.append(MutatingWebhook("refuses", REFUSES, sorted(refused)))
    return found


class Culprit:
    """Does what the recording shows: `effects` in loop.json."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.calls: Counter[int] = Counter()

    def __call__(self, review: dict[str, Any]) -> Any:
        """Return the operations of its JSON Patch."""
        request = review["request"]
        after = copy.deepcopy(request["object"])
        for number, effect in enumerate(LOOP["effects"]):
            target = effect["resource"], effect["operation"]
            user = request["userInfo"]["username"]
            if target == (target_of(request), request["operation"]) and (
                user in effect.get("users", [user])
            ):
                self.change(after, effect, self.calls[number])
                self.calls[number] += 1
        return jsonpatch.make_patch(request["object"], after).patch

    def change(self, value: Any, effect: dict[str, Any], call: int) -> None:
        """Change one field of an object."""
        *above, last = effect["field"]
        for name in above:
            value = value.get(name) if effect["does"] == "remove" else value.setdefault(name, {})
            if not isinstance(value, dict):
                return
        values = effect.get("values", [])
        if effect["does"] == "remove":
            value.pop(last, None)
        elif effect["does"] == "append":
            value[last] = value.get(last, "") + values[0]
        elif effect["does"] == "renew":
            value[last] = another(values[0], call)
        else:
            value[last] = values[call % len(values)]


def target_of(request: dict[str, Any]) -> str:
    """Return the resource of a request as loop.json names it: `deployments.apps/status`."""
    resource = request["resource"]
    plural = f"{resource['resource']}.{resource.get('group', '')}".rstrip(".")
    return f"{plural}/{request.get('subResource', '')}".rstrip("/")


class Refuses:
    """Refuses the writes that were refused in the recording."""

    now = False

    def __call__(self, review: dict[str, Any]) -> dict[str, Any]:
        """Say no where the recording does."""
        return {"response": {"uid": review["request"]["uid"], "allowed": not self.now}}


REFUSES = Refuses()
