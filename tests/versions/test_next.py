"""The table of kinds says what the files of Kubernetes say, and takes on a new release."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from genguard.detection.since import load_types
from genguard.generation.table import GenerationTable, Row, check_rows, load_table
from tests.controlplane.build import MODULE, PROGRAMS, pinned
from tools.versions import next as command
from tools.versions.columns import differences, with_column, written
from tools.versions.next import KINDS, pin
from tools.versions.published import NoReleaseError, Release, find_release
from tools.versions.shapes import SHAPES, merged, missing, shapes_of, written_shapes
from tools.versions.since import types_since

NEWEST = PROGRAMS["kube-apiserver-1.37"]
SHIPPED: list[dict[str, Any]] = json.loads(KINDS.read_text())
UNREADABLE = {"enabledByDefault", "enabledSince", "observedBy", "note"}
"""What only a server or a person says, so that files alone cannot bring it back."""


WHEN = {"versionsSince", "versionsUntil", "subresourcesSince", "observedSince"}


@cache
def release(minor: str) -> Release:
    folder = MODULE if minor == "1.36" else PROGRAMS[f"kube-apiserver-{minor}"]
    return find_release(pinned("k8s.io/kubernetes", folder))


def as_of_1_36(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without all that came with 1.37."""
    new = {
        field: {name for name, since in row.get(f"{told}Since", {}).items() if since == "1.37"}
        for field, told in (
            ("versions", "versions"),
            ("subresources", "subresources"),
            ("observedGeneration", "observed"),
        )
    }
    kept = {
        **row,
        "versions": [name for name in row["versions"] if name not in new["versions"]],
        "subresources": {
            name: rule
            for name, rule in row["subresources"].items()
            if name not in new["subresources"]
        },
        "observedGeneration": [
            name for name in row["observedGeneration"] if name not in new["observedGeneration"]
        ],
        "behaviour": [one for one in row["behaviour"] if one.get("since") != "1.37"],
    }
    for key in ("versionsSince", "subresourcesSince", "observedSince"):
        kept[key] = {name: told for name, told in row.get(key, {}).items() if told != "1.37"}
    until = row.get("versionsUntil", {})
    kept["versionsUntil"] = {name: told for name, told in until.items() if told != "1.36"}
    return {key: value for key, value in kept.items() if value or key not in WHEN}


OLD = [as_of_1_36(row) for row in SHIPPED if row["servedSince"] != "1.37"]


def table_of(rows: list[dict[str, Any]], version: str) -> GenerationTable:
    checked = check_rows(tuple(msgspec.convert(row, Row) for row in rows))
    return GenerationTable(version, {}, checked)


@pytest.mark.slow
@pytest.mark.parametrize("minor", ["1.30", "1.36", "1.37"])
def test_the_table_is_as_discovery_schemas_and_strategies_of_the_release_say(minor: str) -> None:
    found = [str(one) for one in differences(release(minor), load_table(minor))]
    assert found == []


@pytest.mark.slow
def test_a_table_that_ends_with_1_36_takes_on_1_37() -> None:
    before = table_of(OLD, "1.37")
    found = [*differences(release("1.37"), before)]
    told = "\n".join(map(str, found))
    podgroups = "podgroups.scheduling.k8s.io"
    certificates = "podcertificaterequests.certificates.k8s.io"
    composite, hpa = "compositepodgroups.scheduling.k8s.io", "horizontalpodautoscalers.autoscaling"
    source = "pkg/registry/scheduling/compositepodgroup/strategy.go"
    had, has = "the table has", "the release has"
    for said in (
        f"{podgroups}  versions: {had} v1alpha2, {has} v1alpha3, v1beta1",
        f"{certificates}  versions: {had} v1beta1, {has} v1, v1beta1",
        f"{composite}  row: {had} none, {has} CompositePodGroup ({source})",
        f"{hpa}  observedGeneration: ",
        f"{hpa}  behaviour: {had} nothing, {has} sets 1, counts",
    ):
        assert said in told
    rows = with_column(OLD, release("1.37"), found)
    assert [*differences(release("1.37"), table_of(rows, "1.37"))] == []
    assert json.loads(written(rows)) == rows
    old = release("1.36")
    assert [*differences(old, table_of(rows, "1.36"))] == []  # what older servers have stays


@pytest.mark.slow
def test_what_is_drafted_is_what_was_read() -> None:
    """Rows of 1.37 as the script makes them, held against those that were written by hand."""
    rows = with_column(OLD, release("1.37"), [*differences(release("1.37"), table_of(OLD, "1.37"))])
    by_hand = {(row["group"], row["resource"]): row for row in SHIPPED}
    assert [(row["group"], row["resource"]) for row in rows] == sorted(by_hand)
    for row in rows:
        told = by_hand[row["group"], row["resource"]]
        for key in (row.keys() | told.keys()) - UNREADABLE:
            made, wanted = row.get(key), told.get(key)
            if key == "behaviour":  # a gate is for a person to read
                wanted = [{name: one[name] for name in one if name != "gate"} for one in wanted]
            if key == "versions":
                made, wanted = set(made), set(wanted)
            assert made == wanted, (row["resource"], key)


@pytest.mark.slow
def test_fields_are_compared_as_the_go_types_of_the_newest_release_are() -> None:
    shipped = json.loads(SHAPES.read_text())
    found = shapes_of(load_table("1.37"), NEWEST)
    assert [*missing(shipped, found)] == []
    assert written_shapes(merged(shipped, found)) == SHAPES.read_text()
    poorer = {
        "roots": {name: at for name, at in shipped["roots"].items() if "lifecycle" not in name},
        "types": {**shipped["types"], "resource/v1.ResourceSliceSpec": {}},
    }
    told = [*missing(poorer, found)]
    assert "type_shapes.json: lifecycle.k8s.io/v1alpha1/Eviction is not there" in told
    assert (
        "type_shapes.json: resource/v1.ResourceSliceSpec skipNodeOperations is None, not []value"
        in told
    )
    assert merged(poorer, found) == shipped


@pytest.mark.parametrize("given", ["1.38", "latest", "2.0.0", "v1.38.0.1"])
def test_what_is_no_release_is_refused_in_a_line(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([given])
    assert ended.value.code == 2
    assert f"{given} is no release of Kubernetes" in capsys.readouterr().err.splitlines()[-1]


def test_a_release_that_cannot_be_had_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    assert command.main(["1.999.0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("next: k8s.io/kubernetes@v1.999.0: ")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoReleaseError, match="no go command on PATH"):
        find_release("1.999.0")


@pytest.mark.slow
def test_the_module_of_its_api_server_is_written_as_the_pinned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(command, "_resolve", lambda _, folder: calls.append([str(folder)]))
    pin(release("1.37"), tmp_path / "1.37")
    made = (tmp_path / "1.37" / "go.mod").read_text()
    told = (NEWEST / "go.mod").read_text()
    for pattern in (r"^module .*$", r"^go .*$", r"^godebug .*$", r"^tool .*$", r"^\tk8s.*=> .*$"):
        assert re.findall(pattern, made, re.MULTILINE) == re.findall(pattern, told, re.MULTILINE)
    assert pinned("k8s.io/kubernetes", tmp_path / "1.37") == pinned("k8s.io/kubernetes", NEWEST)
    assert calls == [[str(tmp_path / "1.37")]]


def came(types: Any, above: str, *seen: str, at: str = "") -> Iterator[tuple[str, str]]:
    """Paths of fields that 1.36 or 1.37 has anew, where what they are in is not as new."""
    for field, (since, below) in types.get(seen[-1], {}).items():
        now = since if since == "1.37" else "1.36" if since > "1.30" else above
        if now != above:
            yield f"{at}/{field}", now
        if below not in seen:
            yield from came(types, now, *seen, below, at=f"{at}/{field}")


@pytest.mark.slow
def test_fields_came_when_the_documents_of_three_releases_say() -> None:
    found = types_since([release("1.30"), release("1.36"), release("1.37")])
    all_of, told = (dict(came(types, "", "kinds 0")) for types in (load_types(), found))
    gone = all_of.keys() - told.keys()  # of resource.k8s.io in 1.31, of pods in 1.35
    assert {path.rpartition("/")[2] for path in gone} == {"controller", "workloadRef"}
    assert {path: since for path, since in all_of.items() if path not in gone} == told
