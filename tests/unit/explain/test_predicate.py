"""What `explain` says of GenerationChangedPredicate is what the engine predicts of each write."""

from typing import Any

import pytest

from genguard.explain.explanation import (
    DELETION,
    EVERYTHING,
    EVERYTHING_BUT_STATUS,
    Catalogue,
    GenerationPredicate,
    PredicateSafety,
)
from genguard.generation import predict
from genguard.generation.table import Row, load_rows, load_table
from tests.cases_loader import Case, table
from tests.unit.explain.samples import definitions

VERSIONS = ("1.32", "1.36", "1.37")
CHANGES: dict[str, Any] = {
    "metadata.labels": {"a": "b"},
    "metadata.annotations": {"a": "b"},
    "metadata.ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
    ],
    "metadata.finalizers": ["example.org/a"],
    "status": {"phase": "Up"},
}


def explained(resource: str, version: str = "1.36") -> Any:
    return Catalogue(load_table(version), definitions()).explain(resource).generation_predicate


@table("explain/predicates.yaml", "resource", "server", "safety", "passes", "misses")
def test_the_safety_is_that_of_the_table(case: Case) -> None:
    found = explained(case["resource"], case.get("server", "1.36"))
    assert found.safety == case["safety"], case.because
    assert set(case.get("passes", ())) <= set(found.passes)
    assert set(case.get("misses", ())) <= set(found.misses)


def moves(resource: str, field: str, *, version: str, stored: dict[str, Any], **more: Any) -> bool:
    """Whether a write that changes this field alone moves generation."""
    if field == DELETION:
        kept = {**stored, "metadata": {**stored["metadata"], "finalizers": ["example.org/a"]}}
        return bool(predict("DELETE", resource, None, kept, server_version=version, **more).step)
    first, _, last = field.partition(".")
    metadata = {**stored["metadata"], **({last: CHANGES.get(field)} if last else {})}
    changed = {"metadata": metadata} if last else {first: CHANGES.get(field, {"a": "b"})}
    subresource = "status" if field == "status" and more.get("status_subresource", True) else ""
    new = {**stored, **changed}
    done = predict(
        "UPDATE", resource, new, stored, subresource=subresource, server_version=version, **more
    )
    return done.step == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_what_passes_moves_generation_and_what_is_missed_does_not(
    version: str, subtests: pytest.Subtests
) -> None:
    known = Catalogue(load_table(version), definitions())
    for row in load_rows():
        if row.persisted:
            with subtests.test(row.name):
                passes_what_moves(row, version, known.explain(row.name).generation_predicate)


def passes_what_moves(row: Row, version: str, found: GenerationPredicate) -> None:
    # A kind that keeps no generation has none to begin with.
    created = predict("CREATE", row.name, {"spec": {}}, server_version=version).generation
    stored = {"metadata": {"generation": created} if created else {}, "spec": {}}
    for field in found.passes:
        assert moves(row.name, field, version=version, stored=stored), field
    for field in found.misses:
        if not field.startswith("/"):
            assert not moves(row.name, field, version=version, stored=stored), field
    every = {*found.passes, *found.misses}
    assert {*CHANGES} - {"status"} <= every, "labels, annotations, owners, finalizers are named"
    strategy = load_table(version).find(row.group, row.resource)
    assert ("status" in found.misses) is ("status" in strategy.subresources)


@pytest.mark.parametrize("has_status", [True, False])
def test_a_custom_resource_passes_its_status_only_where_it_is_no_subresource(
    has_status: bool,
) -> None:
    found = explained("gadgets.example.org" if has_status else "gadgets.v1alpha1.example.org")
    stored = {"metadata": {"generation": 1}, "spec": {}}
    for field in [*CHANGES, "spec", "data", DELETION]:
        passes = moves(
            "gadgets.example.org",
            field,
            version="1.36",
            stored=stored,
            status_subresource=has_status,
        )
        assert passes is (field not in found.misses), field
    everything = EVERYTHING_BUT_STATUS if has_status else EVERYTHING
    assert found.passes == (everything, DELETION)
    safety = PredicateSafety.SAFE if has_status else PredicateSafety.NOISY
    assert found.safety is safety
