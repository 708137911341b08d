"""An object that depends on others, though it does not own them: their status counts for it."""

from typing import Any

import pytest

from genguard.status.trees import (
    DEPENDS_ON,
    MOST_DEPENDENTS,
    Dependent,
    Node,
    build_trees,
    read_dependents,
)
from genguard.status.view import Health
from tests.cases_loader import table

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
BROKEN = {"conditions": [{"type": "Ready", "status": "False", "reason": "NoDisk"}]}
DATABASE = "SQLInstance.sql.example.org/orders"


def thing(
    name: str,
    kind: str = "Widget",
    group: str = "example.org",
    *,
    on: str = "",
    owner: str = "",
    namespace: str = "shop",
    status: dict[str, Any] = READY,
    **metadata: Any,
) -> dict[str, Any]:
    if on:
        metadata["annotations"] = {DEPENDS_ON: on}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name, "uid": name, "generation": 1, **metadata},
        "status": status,
    }


def trees(*documents: dict[str, Any], shown: set[str] | None = None) -> tuple[Node, ...]:
    return build_trees(documents, shown, at=0.0)


def reasons(node: Node) -> list[str]:
    return [str(one) for one in node.assessment.view.reasons if one.blocks]


def made(name: str, **fields: Any) -> dict[str, Any]:
    """An object from the short form of a case."""
    metadata = fields.pop("metadata", {})
    needs = fields.pop("needs", "")
    fields["on"] = DATABASE if needs == "orders" else needs
    if fields.pop("bad", False):
        fields["status"] = BROKEN
    kind = ("SQLInstance", "sql.example.org") if name == "orders" else ("Widget", "example.org")
    return thing(name, *kind, **fields, **metadata)


@table("status/dependents.yaml", "objects", "shown", "trees", "ready", "reasons")
def test_the_status_of_what_an_object_depends_on_counts_for_it(case):
    shown = set(case["shown"]) if "shown" in case.values else None
    roots = trees(*(made(**one) for one in case["objects"]), shown=shown)
    views = {
        root.assessment.view.name: [node.assessment.view for node in root.walk()] for root in roots
    }
    found = {name: [one.name for one in below] for name, (_, *below) in views.items()}
    assert found == case["trees"], case.because
    ready = case.get("ready", {})
    assert {name: views[name][0].ready for name in ready} == ready, case.because
    if "reasons" in case.values:
        (root,) = roots
        assert reasons(root) == case["reasons"], case.because
        assert (root.assessment.view.settled, root.assessment.view.health) == (False, Health.YELLOW)


def test_what_another_controller_owns_stays_there_and_counts_for_both():
    documents = (
        thing("stack", "Stack"),
        made("orders", owner="stack", bad=True),
        thing("web", on=DATABASE),
    )
    stack, web = trees(*documents)
    assert [one.assessment.view.name for one in stack.children] == ["orders"]
    assert web.children == ()
    assert (stack.assessment.view.ready, web.assessment.view.ready) == (False, False)


def test_terminating_pods_of_a_dependent_are_not_counted_as_its_own():
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "uid": "web",
            "namespace": "shop",
            "annotations": {DEPENDS_ON: "Pod/old"},
        },
        "spec": {"replicas": 0},
        "status": {"observedGeneration": 1},
    }
    pod = thing("old", "Pod", deletionTimestamp="2027-01-15T08:00:00Z") | {"apiVersion": "v1"}
    (root,) = trees(owner, pod)
    assert root.assessment.view.terminating_replicas is None


@pytest.mark.parametrize("text", ["orders", "SQLInstance/", "/orders", "a b/c", "Kind/a/b"])
def test_an_entry_that_cannot_be_read_blocks_and_says_what_is_wanted(text):
    (root,) = trees(thing("web", on=text))
    (reason,) = reasons(root)
    assert reason.startswith("Dependent/unreadable › metadata.annotations[genguard.io/depends-on]")
    assert reason.endswith("a text, want KIND.GROUP/NAME, separated by commas")


def test_names_are_read_once_and_in_limits():
    found = read_dependents(thing("web", on=" Service/web , Service/web,,B.g/c "))
    assert found == (Dependent("", "Service", "web"), Dependent("g", "B", "c"))
    many = ",".join(f"Service/s{number}" for number in range(MOST_DEPENDENTS + 9))
    assert len(read_dependents(thing("web", on=many))) == MOST_DEPENDENTS
