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


def database(**fields: Any) -> dict[str, Any]:
    return thing("orders", "SQLInstance", "sql.example.org", **fields)


def trees(*documents: dict[str, Any], shown: set[str] | None = None) -> tuple[Node, ...]:
    return build_trees(documents, shown, at=0.0)


def reasons(node: Node) -> list[str]:
    return [str(one) for one in node.assessment.view.reasons if one.blocks]


def test_what_nobody_owns_is_placed_below_what_depends_on_it():
    (root,) = trees(database(status=BROKEN), thing("web", on=DATABASE))
    assert [one.assessment.view.name for one in root.children] == ["orders"]
    view = root.assessment.view
    assert (view.ready, view.settled, view.health) == (False, False, Health.YELLOW)
    assert view.reconciled_generation is None
    assert reasons(root) == [
        "SQLInstance/orders › status.conditions[Ready] False, want True: NoDisk"
    ]


def test_without_the_annotation_nothing_of_it_counts():
    _, web = trees(database(status=BROKEN), thing("web"))
    assert web.assessment.view.ready is True


def test_what_another_controller_owns_stays_there_and_counts_for_both():
    documents = (
        thing("stack", "Stack"),
        database(owner="stack", status=BROKEN),
        thing("web", on=DATABASE),
    )
    stack, web = trees(*documents)
    assert [one.assessment.view.name for one in stack.children] == ["orders"]
    assert web.children == ()
    assert (stack.assessment.view.ready, web.assessment.view.ready) == (False, False)


def test_it_counts_though_neither_it_nor_its_owner_is_shown():
    (web,) = trees(
        thing("stack", "Stack"),
        database(owner="stack", status=BROKEN),
        thing("web", on=DATABASE),
        shown={"web"},
    )
    assert web.assessment.view.name == "web"
    assert web.assessment.view.ready is False


def test_what_hangs_below_a_dependent_counts_as_well():
    volume = thing("disk", "Volume", owner="orders", status=BROKEN)
    (root,) = trees(thing("web", on=DATABASE), database(), volume)
    assert reasons(root) == [
        "SQLInstance/orders › Volume/disk › status.conditions[Ready] False, want True: NoDisk"
    ]


def test_one_that_does_not_exist_blocks_and_is_named():
    (root,) = trees(thing("web", on=DATABASE))
    assert root.assessment.view.ready is False
    assert reasons(root) == [
        "SQLInstance/orders › metadata.name absent, want present: genguard.io/depends-on names it"
    ]


def test_one_that_is_being_deleted_blocks_since_nobody_replaces_it():
    leaving = database(deletionTimestamp="2027-01-15T08:00:00Z")
    (root,) = trees(thing("web", on=DATABASE), leaving)
    assert root.assessment.view.ready is False


def test_a_cluster_scoped_one_is_found_and_one_of_another_namespace_is_not():
    (root,) = trees(thing("web", on=DATABASE), database(namespace=""))
    assert root.assessment.view.ready is True
    _, other = trees(database(namespace="other"), thing("web", on=DATABASE))
    assert other.assessment.view.ready is False


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


def test_objects_that_depend_on_each_other_in_a_circle_are_all_told_once():
    one = thing("one", on="Widget.example.org/two")
    two = thing("two", on="Widget.example.org/one", status=BROKEN)
    (root,) = trees(one, two)
    assert [node.assessment.view.name for node in root.walk()] == ["one", "two"]
    assert root.assessment.view.ready is False


def test_an_object_that_names_itself_or_its_owner_is_judged():
    (root,) = trees(thing("web", on="Widget.example.org/web"))
    assert root.assessment.view.ready is True
    (owner,) = trees(thing("web"), thing("part", owner="web", on="Widget.example.org/web"))
    assert [node.assessment.view.name for node in owner.walk()] == ["web", "part"]


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
