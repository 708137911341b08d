"""tests/coverage.md has a row for each requirement, and what each row names exists."""

import pytest

from tests.architecture.source import ROOT
from tools.coverage_rows import mutations, rows, unmutated

REQUIREMENTS = 120
METRICS = {
    "docs/pods.md": (
        "kubelet_pod_start_total_duration_seconds",
        "kubelet_pod_status_sync_duration_seconds",
        "kubelet_pod_worker_duration_seconds",
    ),
    "docs/status.md": (
        "workqueue_retries_total",
        "workqueue_depth",
        "workqueue_work_duration_seconds_bucket",
    ),
}
"""KEP-5067 and KEP-3973, "What specific metrics should inform a rollback?"."""


def test_each_requirement_has_a_row_of_its_own() -> None:
    assert [one.number for one in rows()] == list(range(1, REQUIREMENTS + 1))
    assert len({one.requirement for one in rows()}) == REQUIREMENTS


def test_what_holds_it_and_what_shows_it_exists(subtests: pytest.Subtests) -> None:
    for row in rows():
        with subtests.test(f"row {row.number} of tests/coverage.md"):
            assert row.held
            assert row.shown
            for name in (*row.held, *row.shown):
                path, _, test = name.partition("::")
                assert (ROOT / path).exists(), name
                assert not test or f"def {test}(" in (ROOT / path).read_text(), name
            assert all(one.startswith("tests/") for one in row.shown)


def test_each_row_has_a_mutation_that_still_applies() -> None:
    """`make coverage-rows` runs them; see tools/coverage_rows.py."""
    by_number, without = {row.number: row for row in rows()}, unmutated()
    noticing: dict[int, set[str]] = {number: set() for number in by_number}
    for mutation in mutations():
        row = by_number[mutation.row]
        assert mutation.file in row.held, mutation
        assert (ROOT / mutation.file).read_text().count(mutation.find) == 1, mutation
        assert mutation.replace != mutation.find, mutation
        assert set(mutation.shown) <= set(row.shown), mutation
        noticing[row.number].update(mutation.shown or row.shown)
    for number, row in by_number.items():
        assert (number in without) is not bool(noticing[number]), number
        assert number in without or noticing[number] == set(row.shown), number


def test_the_documents_name_the_metrics_of_both_proposals() -> None:
    for page, names in METRICS.items():
        text = (ROOT / page).read_text()
        assert [name for name in names if f"`{name}`" not in text] == []
