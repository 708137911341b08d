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
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonpatch

from genguard.patch.merge import merge_patch
from genguard.testing import FakeApiServer, MutatingWebhook, RequestRefusedError, assert_no_loop

LOOP = json.loads(Path(__file__).with_name("loop.json").read_text())
DEFINITIONS = json.loads(Path(__file__).with_name("crds.json").read_text())["items"]
WITHOUT_CULPRIT = bool(os.environ.get("WITHOUT_CULPRIT"))
PLAYED = 120
"""Writes. Most loops are a warning after ten rounds, storms after thirty writes."""
EXPECTED = (404, 409)
"""What is there, or is gone, by turns."""
SENT: dict[str, Any] = {}
"""The write that is sent, and what it `asks` for."""


def test_the_writes_come_to_rest() -> None:
    """All writes, one after the other, make no loop."""
    random.seed(1)
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]  # nobody waits
    with FakeApiServer(
        *DEFINITIONS,
        server_version=LOOP["serverVersion"],
        webhooks=webhooks(),
        refuse=refuse,
        now=lambda: clock[-1],
    ) as server:
        for name in sorted({write["namespace"] for write in LOOP["writes"]} - {"", "default"}):
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in LOOP["objects"]:
            server.create(document, user="somebody")
        sent = 0
        for number, (index, change) in zip(range(PLAYED), itertools.cycle(LOOP["order"])):
            write = LOOP["writes"][index]
            if not (WITHOUT_CULPRIT and write["user"] == LOOP["culprit"]):
                clock.append(
                    clock[-1] + timedelta(seconds=LOOP["seconds"] * random.uniform(0.5, 1.5))
                )
                sent += send(server, write, change, number)
        if sent:
            # The same is written again and again here, so that much of it changes nothing.
            assert_no_loop(server, at_least=LOOP["severity"], ignore=["restless-writer"])


def send(server: FakeApiServer, write: dict[str, Any], change: int, number: int) -> bool:
    """Send one write as its user; return whether the server took it, or refused it for good."""
    verb, user, below = write["verb"], write["user"], write.get("subresource", "")
    resource, name, namespace = write["resource"], write["name"], write["namespace"] or "default"
    SENT.clear()
    try:
        made = change_of(server, write, change, number)
        SENT.update(write, asks=made)
        if verb == "delete":
            background = {"propagationPolicy": "Background"}
            name = made["metadata"]["name"]
            server.delete(resource, name, namespace, options=background, user=user)
        elif verb == "create":
            server.create(made, user=user)
        elif verb == "put":
            made["metadata"]["resourceVersion"] = "1"
            server.update(made, subresource=below, user=user)
        else:
            server.patch(resource, name, made, namespace, subresource=below, user=user)
    except RequestRefusedError as error:
        if verb == "put" or (write.get("refused") and error.status not in EXPECTED):
            return True
        if error.status not in EXPECTED:
            raise
        return False
    return True


def change_of(
    server: FakeApiServer, write: dict[str, Any], change: int, number: int
) -> dict[str, Any]:
    """Return what a write asks for this time."""
    if write["verb"] == "move":
        is_custom = "." in write["resource"].partition(".")[2]
        return {"spec": {"moved" if is_custom else "minReadySeconds": number}}
    made: dict[str, Any] = copy.deepcopy(write["changes"][change])
    for field in write.get("renewed", ()):
        above, last = holder(made, field)
        if last in above:
            above[last] = another(above[last], number)
    for held in write.get("held", ()):
        above, last = holder(made, held["field"])
        if last in above:
            own = write["resource"], write["namespace"], write["name"]
            resource, namespace, name = held.get("object") or own
            metadata = server.get(resource, name, namespace or "default")["metadata"]
            now = metadata[held["what"]]
            above[last] = now + held["offset"] if held.get("offset") else now
    return made


def holder(document: dict[str, Any], field: list[str]) -> tuple[dict[str, Any], str]:
    """Return what a field is in, and its name there; an empty object where that is not there."""
    *above, last = field
    for name in above:
        inner = document.get(name)
        document = inner if isinstance(inner, dict) else {}
    return document, last


def another(value: Any, number: int) -> Any:
    """Return another value than for each other number."""
    if isinstance(value, int):
        return 1_000 + number
    if isinstance(value, str) and value.startswith("2026-01-01T"):
        return f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
    return f"{value}-{number}"


def webhooks() -> list[MutatingWebhook]:
    """Return what the recording shows of webhooks, or yours."""
    resources = sorted({effect["resource"] for effect in LOOP["effects"]})
    if not resources or WITHOUT_CULPRIT:
        return []
    answer = os.environ.get("WEBHOOK_URL") or culprit()
    return [MutatingWebhook("culprit", answer, resources, ca_file=os.environ.get("WEBHOOK_CA"))]


def culprit() -> Callable[[dict[str, Any]], Any]:
    """Return a webhook that does what the recording shows: `effects` in loop.json."""
    calls: Counter[int] = Counter()

    def patch(review: dict[str, Any]) -> Any:
        request = review["request"]
        resource = request["resource"]
        plural = f"{resource['resource']}.{resource.get('group', '')}".rstrip(".")
        target = f"{plural}/{request.get('subResource', '')}".rstrip("/"), request["operation"]
        after = copy.deepcopy(request["object"])
        for number, effect in enumerate(LOOP["effects"]):
            if (effect["resource"], effect["operation"]) == target:
                apply(effect, after, calls[number])
                calls[number] += 1
        return jsonpatch.make_patch(request["object"], after).patch

    return patch


def apply(effect: dict[str, Any], value: Any, call: int) -> None:
    """Change one field of an object."""
    *above, last = effect["field"]
    for name in above:
        value = value.get(name) if effect["does"] == "remove" else value.setdefault(name, {})
        if not isinstance(value, dict):
            return
    values = effect.get("values", [])
    if effect["does"] == "remove":
        value.pop(last, None)
    elif effect["does"] == "renew":
        value[last] = another(values[0], call)
    else:
        value[last] = values[call % len(values)]


def refuse(review: dict[str, Any]) -> str:
    """Refuse what was refused in the recording; for what a webhook makes of it, only that."""
    if not SENT.get("refused"):
        return ""
    old, new = review["request"]["oldObject"] or {}, review["request"]["object"]
    asked = merge_patch(old, SENT["asks"])
    changed = [
        effect["field"]
        for effect in LOOP["effects"]
        if holder(asked, effect["field"])[0].get(effect["field"][-1])
        != holder(new, effect["field"])[0].get(effect["field"][-1])
    ]
    return "refused, as recorded" if LOOP["culprit"] or changed else ""
