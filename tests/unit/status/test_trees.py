"""Trees of owners, whatever the ownerReferences say, and the rows they are drawn as."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.status.drawing import Tone
from genguard.status.drawing import table as drawn
from genguard.status.trees import build_trees


def document(name, *owners: str, kind="ConfigMap", **fields):
    references = [{"uid": uid, "controller": index == 1} for index, uid in enumerate(owners)]
    metadata = {"name": name, "uid": name, "namespace": "n", "ownerReferences": references}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def names(roots):
    return [(root.assessment.view.name, names(root.children)) for root in roots]


def test_the_order_of_roots_is_kept_and_below_them_it_is_by_name():
    documents = [document("z", "root"), document("other"), document("a", "root"), document("root")]
    expected = [("other", []), ("root", [("a", []), ("z", [])])]
    assert names(build_trees(documents, at=0.0)) == expected


def test_of_several_owners_the_controller_counts_else_the_first_that_is_there():
    documents = [document("one"), document("two"), document("x", "one", "two")]
    assert names(build_trees(documents, at=0.0)) == [("one", []), ("two", [("x", [])])]
    assert names(build_trees(documents[::2], at=0.0)) == [("one", [("x", [])])]


def test_what_is_asked_for_is_told_once_and_nothing_else():
    documents = [document("pod", "set"), document("set", "web"), document("web"), document("no")]
    assert names(build_trees(documents, {"pod", "web"}, at=0.0)) == [
        ("web", [("set", [("pod", [])])])
    ]
    assert names(build_trees(documents, {"pod"}, at=0.0)) == [("pod", [])]
    assert names(build_trees(documents, set(), at=0.0)) == []


NAMES = st.sampled_from("abcde")


@given(st.lists(st.builds(document, NAMES, NAMES, NAMES), max_size=6), st.none() | st.sets(NAMES))
def test_every_object_that_is_asked_for_is_told_exactly_once(documents, wanted):
    roots = build_trees(documents, wanted, at=0.0)
    told = [id(node.assessment.document) for root in roots for node in root.walk()]
    assert len(told) == len(set(told))
    asked = [one for one in documents if wanted is None or one["metadata"]["uid"] in wanted]
    assert {id(one) for one in asked} <= set(told)


@pytest.mark.parametrize("owners", [None, 5, [5], [{}], [{"uid": 5}], [{"uid": "self"}], {}])
def test_owners_that_are_none_make_a_root(owners):
    found = document("self")
    found["metadata"]["ownerReferences"] = owners
    assert names(build_trees([found], at=0.0)) == [("self", [])]


@pytest.mark.slow
def test_a_long_line_of_owners_has_no_end_in_the_stack():
    documents = [document(str(number), str(number - 1)) for number in range(3_000)]
    (root,) = build_trees(documents, at=0.0)
    assert sum(1 for _ in root.walk()) == 3_000


def test_former_replica_sets_are_shown_only_wide():
    web = document("web", kind="Deployment") | {"apiVersion": "apps/v1"}
    former = document("web-1", "web", kind="ReplicaSet", spec={"replicas": 0})
    roots = build_trees([web, former | {"apiVersion": "apps/v1"}], at=0.0)
    narrow, wide = drawn(roots, wide=False), drawn(roots, wide=True)
    assert "ReplicaSet/web-1" not in {row[0].text.strip("└─") for row in narrow}
    assert "ReplicaSet/web-1" in {row[0].text.strip("└─") for row in wide}


def test_wide_rows_tell_which_generation_was_observed_of_how_many():
    observed = document("a", kind="Widget", status={"observedGeneration": 3})
    observed["metadata"]["generation"] = 4
    counted = document("b", kind="Widget")
    counted["metadata"]["generation"] = 2
    rows = drawn(build_trees([observed, counted, document("c")], at=0.0), wide=True)
    assert [row[5].text for row in rows if len(row) > 6] == ["GENERATION", "3 of 4", "2", "-"]


def test_a_cell_has_the_tone_of_what_it_means():
    pod = {"phase": "Failed"}
    roots = build_trees([document("good"), document("bad", kind="Pod", status=pod)], at=0.0)
    rows = drawn(roots, wide=False)
    assert [row[3].tone for row in rows if len(row) == 6] == [Tone.FAINT, Tone.GOOD, Tone.BAD]


def test_who_is_to_blame_is_a_row_below_the_object():
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "u"}}
    rows = drawn(
        build_trees([document], at=0.0),
        wide=False,
        blame=lambda view: [f"mmm (certain): {view.uid}"],
    )
    assert [cell.text for cell in rows[-1]] == ["  ! mmm (certain): u"]
