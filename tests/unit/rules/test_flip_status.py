"""Whose status may be flipped: proved from definitions, refused with the reason otherwise."""

import json
import time
from typing import Any

import pytest

from genguard.generation import CustomResource, StatusSubresource
from genguard.generation.custom import from_definition
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.rules.flip_status import NotFlippableError
from tests.reviews import KINDS, ask, changes, make_dependencies, make_review

ABSENT = CustomResource(*KINDS["widgets"], StatusSubresource.ABSENT)
PRESENT = CustomResource(*KINDS["widgets"], StatusSubresource.PRESENT)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def definition(status: dict[str, Any] | None, **version: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"status": status} if status else {}}
    return {
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}, **version}],
        },
    }


def edited(new: dict[str, Any], old: dict[str, Any], resource: str = "widgets") -> dict[str, Any]:
    """A change of spec."""
    return make_review(
        resource=resource,
        new={"spec": {"a": 2}, "status": new},
        old={"spec": {"a": 1}, "status": old},
    )


BUILT_IN = "a built-in kind, whose status is written apart from its spec"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("custom", "name", "reason"),
    [
        (
            definition(FREE, subresources={"status": {}}),
            "widgets.example.org",
            "it has a status subresource: the API server drops a status sent along with spec",
        ),
        (definition(None), "widgets.example.org", "the schema has no status"),
        (definition(FREE), "gadgets.example.org", "no CustomResourceDefinition is known of it"),
        (definition(FREE), "widgets", "no CustomResourceDefinition is known of it"),
        (definition(FREE), "deployments.apps", BUILT_IN),
        (definition(FREE), "Pod", BUILT_IN),
    ],
)
def test_what_cannot_be_flipped_ends_the_start_with_the_reason(custom, name, reason):
    with pytest.raises(NotFlippableError, match=f"--flip-status {name}: {reason}"):
        ReviewSetup(
            ReviewOptions(custom_resources=from_definition(custom), flipped_resources=(name,))
        )


def test_a_cluster_may_tell_later_and_is_told_why_not():
    setup = ReviewSetup(ReviewOptions(flipped_resources=("Widget.example.org",), connects=True))
    assert list(setup.not_flipped()) == ["Widget.example.org"]
    setup.learn("1.36", (ABSENT,))
    assert setup.not_flipped() == {}


def test_a_definition_that_changes_under_the_server_is_reported_once_and_no_write_fails():
    setup = ReviewSetup(ReviewOptions(flipped_resources=("widgets.example.org",), connects=True))
    setup.learn("1.36", (ABSENT,))
    asked = edited(READY, READY)
    assert "/status/conditions/1" in changes(ask(asked, setup.dependencies))
    assert "status subresource" in setup.learn("1.36", (PRESENT,))["widgets.example.org"]
    assert setup.learn("1.36", (PRESENT,)) == {}
    assert changes(ask(asked, setup.dependencies)) == {}


def test_of_a_resource_with_versions_only_those_without_the_subresource_are_flipped():
    other = CustomResource("example.org", "v2", "widgets", "Widget", StatusSubresource.PRESENT)
    dependencies = make_dependencies(custom=[ABSENT, other], flip=("widgets.example.org",))
    asked = edited(READY, READY)
    assert ask(asked, dependencies).patch
    asked["request"]["resource"]["version"] = "v2"
    assert not ask(asked, dependencies).patch


def test_each_resource_that_is_named_is_flipped():
    other = CustomResource(*KINDS["gadgets"], StatusSubresource.ABSENT)
    dependencies = make_dependencies(
        custom=[ABSENT, other], flip=("widgets.example.org", "Gadget.example.org")
    )
    for resource in ("widgets", "gadgets"):
        assert ask(edited(READY, READY, resource), dependencies).patch, resource


def test_the_time_is_utc_wherever_the_server_runs(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        dependencies = make_dependencies(custom=[ABSENT], flip=("widgets.example.org",))
        (_, settled) = ask(edited(READY, READY), dependencies).object["status"]["conditions"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert settled["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_what_was_lost_is_put_back_into_the_flipped_list():
    ready = {"type": "Ready", "status": "True"}
    lost = {"conditions": [{"type": "Synced"}, ready]}
    old = {"conditions": [{"type": "Synced", "observedGeneration": 3}, ready]}
    dependencies = make_dependencies(custom=[ABSENT], flip=("widgets.example.org",))
    asked = edited(lost, old)
    conditions = ask(asked, dependencies).object["status"]["conditions"]
    assert conditions[0] == {"type": "Synced", "observedGeneration": 3}
    assert (conditions[1]["status"], conditions[2]["type"]) == ("Unknown", "Settled")


def test_audit_only_tells_what_it_would_do():
    dependencies = make_dependencies(
        audit_only=True, custom=[ABSENT], flip=("widgets.example.org",)
    )
    asked = edited(READY, READY)
    answer = ask(asked, dependencies)
    assert answer.patch == []
    assert answer.annotations["flip-status"] == "would set status.conditions=..."


def test_round_1_is_answered_with_the_same_bytes_and_no_second_time():
    dependencies = make_dependencies(custom=[ABSENT], flip=("widgets.example.org",))
    asked = edited(READY, READY)
    first = ask(asked, dependencies, now=10.0)
    assert ask(
        asked, make_dependencies(custom=[ABSENT], flip=("widgets.example.org",)), now=10.0
    ).document == (first.document)
    again = edited(first.object["status"], READY)
    second = ask(again, dependencies, now=11.0)
    assert second.patch == []
    assert json.dumps(second.object) == json.dumps(again["request"]["object"])
