"""kinds.json: complete, of one mind with itself, and resolved for each server."""

import json
from importlib import resources

import msgspec
import pytest

from genguard.generation.strategy import OnCreate, parse_version
from genguard.generation.table import (
    BadTableError,
    Row,
    check_rows,
    counted_since,
    known_versions,
    load_rows,
    load_table,
)
from tests.cases_loader import load, table
from tests.unit.generation.test_generation_cases import KEYS

SHIPPED = json.loads(resources.files("genguard.generation").joinpath("kinds.json").read_text())
PINNED = load("kinds/served_1_36.yaml", "create", "resources")


def served(row: Row, version: str) -> bool:
    at = parse_version(version)
    return parse_version(row.served_since) <= at <= parse_version(row.served_until or "9.9")


def test_every_row_loads_by_itself(subtests):
    for row in SHIPPED:
        with subtests.test(f"{row['resource']}.{row['group']}"):
            (loaded,) = check_rows((msgspec.convert(row, Row),))
            assert load_table().find(loaded.group, loaded.resource) is not None


def test_the_76_resources_of_1_36_are_there_and_no_other():
    names = {row.name for row in load_rows() if served(row, "1.36")}
    pinned = [name for case in PINNED for name in case["resources"]]
    assert names == set(pinned)
    assert len(pinned) == 76


def test_every_newer_kind_has_cases():
    pinned = {name for case in PINNED for name in case["resources"]}
    predicted = {case["resource"] for case in load("generation", *KEYS)}
    newer = {row.name for row in load_rows() if not row.served_until}
    assert newer - pinned - predicted == set(), "add cases to tests/cases/generation"


@pytest.mark.parametrize("case", PINNED, ids=lambda case: case["create"])
def test_each_of_them_begins_as_its_strategy_says(case):
    found = load_table("1.36")
    for name in case["resources"]:
        plural, _, group = name.partition(".")
        strategy = found.find(group, plural)
        assert strategy is not None
        assert strategy.on_create is OnCreate(case["create"]), name


@table("kinds/contradictions.yaml", "change", "twice", "error")
def test_a_table_that_contradicts_itself_is_refused(case):
    (good,) = (row for row in SHIPPED if row["resource"] == "deployments")
    row = msgspec.convert({**good, **case.get("change", {})}, Row)
    with pytest.raises(BadTableError) as raised:
        check_rows((row, row) if case.get("twice") else (row,))
    assert str(raised.value) == case["error"], case.because


def test_a_key_that_the_table_does_not_know_is_refused():
    with pytest.raises(msgspec.ValidationError, match="genration"):
        msgspec.convert({**SHIPPED[0], "genration": 1}, Row)


def test_a_feature_gate_that_is_off_leaves_the_behaviour_before():
    on, off = load_table("1.37"), load_table("1.37", {"HPAGeneration": False})
    name = ("autoscaling", "horizontalpodautoscalers")
    assert on.find(*name) != off.find(*name)
    assert off.find(*name) == load_table("1.36").find(*name)


@table("objects/counted_since.yaml", "group", "resource", "since")
def test_it_says_since_when_a_kind_has_a_generation_where_it_has_not_always_had_one(case):
    assert counted_since(case["group"], case["resource"]) == case["since"], case.because


def test_what_no_table_lists_is_not_built_in():
    assert load_table().find("example.org", "deployments") is None
    assert load_table().find("", "deployments") is None


def test_a_server_serves_a_resource_between_its_versions():
    rows = {row.resource: row for row in load_rows()}
    assert known_versions() == ("1.28", "1.37"), "as the documents say"
    for name, served in (
        ("pods", ("1.28", "1.30", "1.31", "1.37")),
        ("resourceclasses", ("1.28", "1.30")),
    ):
        for version in ("1.27", "1.28", "1.30", "1.31", "1.37"):
            is_served = load_table(version).serves(rows[name])
            assert is_served is (version in served), (name, version)


@table("kinds/of_versions.yaml", "name", "server", "versions", "is_on", "observed")
def test_a_server_has_of_a_row_what_its_version_has(case):
    (row,) = (row for row in load_rows() if row.resource == case["name"])
    found = load_table(case["server"])
    assert found.versions(row) == tuple(case["versions"]), case.because
    assert found.enables(row) is case["is_on"]
    assert len(found.observed(row)) == case["observed"]


def test_all_versions_are_told_where_a_server_has_none_of_them():
    row = msgspec.convert({**SHIPPED[0], "versionsSince": {"v1": "1.37"}}, Row)
    assert load_table("1.36").versions(row) == ("v1",)


@pytest.mark.parametrize(("version", "is_there"), [("1.36", False), ("1.37", True)])
def test_a_subresource_that_came_later_is_of_later_servers(version, is_there):
    found = load_table(version).find("storage.k8s.io", "csinodes")
    assert ("status" in found.subresources) is is_there
