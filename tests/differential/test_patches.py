"""Every patch applies in kube-apiserver, which uses another library than our tests, to one result.

A JSON patch that does not apply fails the user's write, even with `failurePolicy: Ignore`. So odd
objects are reviewed, and the patches applied by github.com/evanphx/json-patch, as jsonpatches does.
"""

import json
import random
import subprocess
from base64 import b64decode
from collections import Counter
from typing import Any

import pytest

from genguard.admission.review import Phase
from genguard.generation import CustomResource
from genguard.generation.custom import StatusSubresource
from genguard.review import review
from genguard.review_setup import GenerationPatch
from tests.controlplane.build import MODULE, binary, pinned
from tests.reviews import make_dependencies, make_review

LIBRARY = "gopkg.in/evanphx/json-patch.v4"
KEYS = (
    "", "/", "~", "~0", "~1", "~01", "a/b", "m~n", "-", "0", "01", "-1", "1e0", " ", "é", "\u2028",
    "<&>", "status", "observedGeneration", "generation", "genguard.io/probe", "type", "phase",
    "x" * 300, "\x00", '"', "\\", "\U0001d4b3", "metadata", "conditions", "__proto__",
)  # fmt: skip
VALUES = (
    None, True, False, 0, 1, 3, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 10**30, -0.0, 0.1, 1e300,
    1.0, 5e-324, "", "3", "~1", "\u2028", "<&>", "x" * 5_000, "\x00", "\U0001d4b3", [], {},
)  # fmt: skip
"""The API server's own JSON has no more: what is no UTF-8 it has replaced (encoding/json)."""
CUSTOM = (CustomResource("example.org", "v1", "widgets", "Widget", StatusSubresource.PRESENT),)
RESTORED = "status.observedGeneration,status.conditions[*].observedGeneration,"
RESTORED += "status.phase,status.a.b"


class Draw:
    """Odd values, the same for each seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.choice, self.chance = self._random.choice, self._random.random

    def value(self, depth: int = 3) -> Any:
        """Any JSON, seldom deep."""
        kind = self.chance()
        if depth == 0 or kind < 0.5:
            return self.choice(VALUES)
        if kind < 0.6:
            deep: Any = self.choice(VALUES)
            for _ in range(self.choice((5, 50, 900))):
                deep = [deep] if self.chance() < 0.5 else {self.choice(KEYS): deep}
            return deep
        many = range(self.choice((0, 1, 2, 5)))
        if kind < 0.75:
            return [self.value(depth - 1) for _ in many]
        return {self.choice(KEYS): self.value(depth - 1) for _ in many}

    def among(self, *usual: Any) -> Any:
        """Mostly one of the usual, sometimes anything."""
        return self.choice(usual) if self.chance() < 0.85 else self.value()

    def condition(self) -> Any:
        found = {"type": self.choice(("Ready", "Synced", "a/b", "~", "")), "status": "True"}
        if self.chance() < 0.6:
            found["observedGeneration"] = self.among(0, 1, 2, 3)
        return self.among(found)

    def status(self) -> Any:
        found = {}
        if self.chance() < 0.6:
            found["observedGeneration"] = self.among(0, 1, 2, 3)
        if self.chance() < 0.6:
            found["conditions"] = self.among(
                [self.condition() for _ in range(self.choice((0, 1, 3)))]
            )
        if self.chance() < 0.5:
            found["phase"] = self.among("Up", "Down")
        if self.chance() < 0.4:
            found["a"] = self.among({"b": 1}, {"b": {"c": 2}}, {})
        if self.chance() < 0.4:
            found[self.choice(KEYS)] = self.value()
        return self.among(found)

    def object(self) -> dict[str, Any]:
        metadata = {"generation": self.among(0, 1, 2, 3)} if self.chance() < 0.8 else {}
        if self.chance() < 0.5:
            notes = {self.choice(KEYS): "x", "genguard.io/probe": self.choice(("1", "~", ""))}
            metadata["annotations"] = self.among(notes, {})
        found: dict[str, Any] = {"metadata": metadata}
        if self.chance() < 0.9:
            found["status"] = self.status()
        if self.chance() < 0.7:
            found["spec"] = self.value()
        if self.chance() < 0.3:
            found[self.choice(KEYS)] = self.value()
            found["metadata"] = metadata
        return found


def with_twins(text: str, draw: Draw) -> str:
    """The object with a key twice, as a client may send it; the last counts."""
    return (
        text
        if draw.chance() < 0.9
        else text.replace('"status":', '"status":{"phase":1},"status":', 1)
    )


def patched(draws: int) -> tuple[list[str], list[Any], Counter[str]]:
    """Lines for the program, what our own library makes of each, and how many of which path."""
    deps = make_dependencies(
        generation_patch=GenerationPatch.ALWAYS, custom=CUSTOM, restore=RESTORED
    )
    lines: list[str] = []
    ours: list[Any] = []
    paths: Counter[str] = Counter()
    for seed in range(draws):
        draw = Draw(seed)
        resource = draw.choice(("pods", "deployments", "widgets", "configmaps", "services", "jobs"))
        operation = draw.choice(("CREATE", "UPDATE", "UPDATE", "UPDATE"))
        sub = draw.choice(("", "status")) if operation == "UPDATE" else ""
        old = draw.object() if operation == "UPDATE" else None
        asked = make_review(operation, resource, draw.object(), old, subresource=sub)
        if sub and draw.chance() < 0.5:
            sent = {
                **asked["request"],
                "object": {**asked["request"]["object"], "status": draw.status()},
            }
            review(json.dumps({**asked, "request": sent}).encode(), Phase.INTENT, deps, float(seed))
        plain = json.dumps(asked["request"]["object"])
        text = with_twins(plain, draw)
        body = json.dumps(asked).replace(plain, text, 1)
        reply = review(body.encode(), Phase.MUTATE, deps, float(seed))
        patch = json.loads(reply.body).get("response", {}).get("patch")
        if patch is None:
            continue
        operations = b64decode(patch).decode()
        lines.append(f'{{"object":{text},"patch":{operations}}}\n')
        ours.append(applied(json.loads(text), json.loads(operations)))
        paths.update(one["path"] for one in json.loads(operations))
    return lines, ours, paths


def applied(found: Any, operations: list[dict[str, Any]]) -> Any:
    """By RFC 6902, as far as genguard uses it: it only tests, adds and replaces."""
    for one in operations:
        keys = [key.replace("~1", "/").replace("~0", "~") for key in one["path"].split("/")[1:]]
        place = found
        for key in keys[:-1]:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if one["op"] == "test":
            assert place[keys[-1]] == one["value"]
        elif isinstance(place, list):
            place[int(keys[-1])] = one["value"]
        else:
            assert one["op"] == "add" or keys[-1] in place
            place[keys[-1]] = one["value"]
    return found


@pytest.mark.parametrize("draws", [3_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_each_patch_of_odd_objects_applies_in_the_api_server_to_the_same_object(draws: int) -> None:
    lines, ours, paths = patched(draws)
    done = subprocess.run(
        [binary("jsonpatches")], input="".join(lines), capture_output=True, text=True, check=True
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(theirs) == len(ours) > draws / 5
    for line, found, expected in zip(lines, theirs, ours, strict=True):
        assert found == {"object": expected}, line
    print(len(theirs), paths.most_common(12))
    assert {"/metadata/generation", "/status/observedGeneration", "/status/phase"} <= paths.keys()


def test_it_is_the_version_that_the_api_server_is_built_with() -> None:
    folder = MODULE / "jsonpatches"
    assert f"{LIBRARY} v{pinned(LIBRARY)}\n" in (folder / "go.mod").read_text()
