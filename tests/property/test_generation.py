"""Laws of generation that hold for every kind and every write."""

import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from genguard.generation import Prediction, load_table, predict
from genguard.generation.table import load_rows
from tests.property.strategies import CUSTOM, JSON, OBJECTS, RESOURCES, SPECS
from tests.property.writes import reviews
from tests.reviews import ask, make_dependencies, make_review

ROWS = st.sampled_from([row for row in load_rows() if row.persisted])
STORED = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"generation": st.integers(0, 5)}), "spec": SPECS | JSON}
)


def predicted(asked: dict[str, Any], custom: Any = ()) -> Prediction | None:
    return ask(asked, make_dependencies(custom=custom)).result.prediction


@given(reviews(), CUSTOM)
def test_generation_moves_by_one_or_not_at_all_and_never_back(asked, custom):
    found = predicted(asked, custom)
    if found is None:
        return  # a value that cannot be compared
    assert found.step in (0, 1, None)
    old = asked["request"]["oldObject"]
    if old is not None and found.generation is not None:
        stored = old["metadata"].get("generation") or 0
        assert found.generation - stored == found.step


@given(RESOURCES, OBJECTS, CUSTOM)
def test_a_write_that_changes_nothing_does_not_count(resource, stored, custom):
    found = predicted(make_review("UPDATE", resource, stored, copy.deepcopy(stored)), custom)
    assert found is None or found.step in (0, None)
    if found is not None and found.step is None:
        assert resource.startswith("tokenreviews")


@given(RESOURCES, OBJECTS, OBJECTS, CUSTOM, st.none() | st.integers(0, 2**63 - 1))
def test_what_the_client_says_of_generation_does_not_matter(resource, new, old, custom, said):
    told = copy.deepcopy(new)
    told.setdefault("metadata", {})["generation"] = said
    assert predicted(make_review("UPDATE", resource, new, old), custom) == predicted(
        make_review("UPDATE", resource, told, old), custom
    )


@given(ROWS, STORED, STORED)
def test_a_change_and_its_way_back_count_alike(row, one, other):
    there = predict("UPDATE", row.name, one, other)
    back = predict("UPDATE", row.name, other, one)
    assert there.step == back.step


@given(ROWS, STORED, JSON)
def test_status_never_counts_for_a_built_in_kind(row, stored, status):
    assume("status" in row.subresources)
    written = predict("UPDATE", row.name, {**stored, "status": status}, stored)
    direct = predict("UPDATE", row.name, {**stored, "status": status}, stored, subresource="status")
    assert written.step == direct.step == 0


@given(ROWS, STORED, st.sampled_from(["labels", "annotations"]))
def test_metadata_counts_for_deployments_and_endpoint_slices_alone(row, stored, field):
    changed = {**stored, "metadata": {**stored["metadata"], field: {"a": "b"}}}
    strategy = load_table().find(row.group, row.resource)
    counts = f"/metadata/{field}" in strategy.compare
    assert counts == (
        (row.resource, field) in {("deployments", "annotations"), ("endpointslices", "labels")}
    )
    assert predict("UPDATE", row.name, changed, stored).step == int(counts)


@given(ROWS, STORED, st.sampled_from([None, "Orphan", "Foreground", "Background"]))
def test_a_deletion_counts_once(row, stored, policy):
    options = {"propagationPolicy": policy} if policy else None
    first = predict("DELETE", row.name, None, stored, options=options)
    terminating = copy.deepcopy(stored)
    terminating["metadata"] |= {
        "generation": first.generation or 0, "deletionTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    again = predict("DELETE", row.name, None, terminating, options=options)
    assert first.step in (0, 1)
    assert again.step == 0
    assert again.generation == first.generation


@given(ROWS, STORED, STORED, st.sampled_from(["1.28", "1.30", "1.32", "1.33", "1.36", "1.37"]))
def test_a_newer_server_counts_at_least_what_an_older_one_does(row, new, old, version):
    then = predict("UPDATE", row.name, new, old, server_version=version)
    now = predict("UPDATE", row.name, new, old, server_version="1.37")
    assert then.step <= now.step
