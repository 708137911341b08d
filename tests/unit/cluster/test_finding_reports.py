"""Reports of findings: what is in them, when they are written, and that they end."""

import asyncio
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from genguard.detection.finding import Finding, Severity
from genguard.linting.openreports import LEFT_OUT, MANAGED_BY, MOST_RESULTS
from tests.openreports import definitions
from tests.unit.alerts.findings import CANARY, finding, on
from webhook.cluster.finding_reports import (
    AGAIN_SECONDS,
    COUNT_SECONDS,
    MOST_REPORTS,
    MOST_WRITES,
    FindingReports,
)
from webhook.cluster.rest import RefusedError

SCHEMAS = {
    one["spec"]["names"]["kind"]: one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for one in definitions()
}


class Server:
    """An API server that keeps reports by path, and checks each against the published schema."""

    def __init__(self) -> None:
        self.reports: dict[str, Any] = {}
        self.calls: list[tuple[str, str]] = []
        self.refusal: Exception | None = None
        self.listed: list[dict[str, Any]] = []

    async def call(self, method, path, body=None, *, params=None, content_type="") -> Any:
        self.calls.append((method, path))
        if self.refusal is not None:
            raise self.refusal
        if method == "DELETE":
            if path not in self.reports:
                raise RefusedError(404, "not found")
            return self.reports.pop(path)
        assert method == "PATCH"
        assert content_type == "application/apply-patch+yaml"
        assert params == {"fieldManager": "genguard", "force": "true"}
        Draft202012Validator(SCHEMAS[body["kind"]]).validate(body)
        self.reports[path] = body
        return body

    async def metadata(self, path: str) -> Any:
        self.calls.append(("GET", path))
        if self.refusal is not None:
            raise self.refusal
        assert path.endswith("reports?labelSelector=app.kubernetes.io/managed-by%3Dgenguard")
        is_namespaced = "/reports?" in path
        items = [one for one in self.listed if ("namespace" in one) is is_namespaced]
        return {"items": [{"metadata": one} for one in items] or None}

    @property
    def writes(self) -> int:
        return sum(method != "GET" for method, _ in self.calls)


class Leader:
    is_leader = True
    vacant_since = 0.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def place(namespace: str) -> str:
    folder = "/apis/openreports.io/v1alpha1"
    if not namespace:
        return f"{folder}/clusterreports/genguard"
    return f"{folder}/namespaces/{namespace}/reports/genguard"


def reporting(server: Server, clock: Clock) -> FindingReports:
    return FindingReports(server, lambda _: "Deployment", Leader(), clock)


def found(name: str = "one", namespace: str = "shop", **changes: Any) -> Finding:
    return finding(**{"id": name, "object": on("web", namespace), **changes})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reports(server: Server, clock: Clock) -> FindingReports:
    return reporting(server, clock)


async def test_each_namespace_has_a_report_and_what_has_none_a_cluster_report(reports, server):
    await reports.write((found("a"), found("b", "till"), found("c", "")))
    assert server.reports.keys() == {place("shop"), place("till"), place("")}
    assert server.reports[place("")]["kind"] == "ClusterReport"
    report = server.reports[place("shop")]
    assert report["kind"] == "Report"
    assert report["source"] == "genguard"
    assert report["metadata"]["labels"] == {MANAGED_BY: "genguard"}
    (result,) = report["results"]
    assert result["policy"] == found().detector
    assert result["resources"][0]["kind"] == "Deployment"
    assert result["properties"]["finding"] == "a"
    assert result["properties"]["actors"] == "old-operator/hook (certain)"
    assert CANARY not in str(server.reports)


@pytest.mark.parametrize(
    ("severity", "result", "told"),
    [(Severity.CRITICAL, "fail", "critical"), (Severity.WARNING, "warn", "medium")],
)
async def test_the_severity_decides_the_result(reports, server, severity, result, told):
    await reports.write((found(severity=severity),))
    report = server.reports[place("shop")]
    assert (report["results"][0]["result"], report["results"][0]["severity"]) == (result, told)
    assert report["summary"] == {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0} | {
        result: 1
    }


@pytest.mark.parametrize("changes", [{"severity": Severity.INFO}, {"state": "resolved"}])
async def test_what_nobody_is_alerted_of_is_not_reported(reports, server, changes):
    await reports.write((found(**changes),))
    assert server.writes == 0


async def test_a_report_ends_with_its_findings(reports, server):
    await reports.write((found("a"), found("b", "till")))
    await reports.write((found("a", state="resolved"), found("b", "till")))
    assert server.reports.keys() == {place("till")}
    assert dict(reports.counts()) == {("written",): 2, ("deleted",): 1, ("failed",): 0}


async def test_the_reports_of_an_earlier_leader_end_too_and_others_stay(reports, server):
    mine = {"name": "genguard", "namespace": "old"}
    server.listed = [mine, {"name": "genguard"}, {"name": "genguard-lint"}]
    server.reports = {place("old"): {}, place(""): {}}
    await reports.write(())
    assert server.reports == {}
    assert [path for method, path in server.calls if method == "DELETE"] == [
        place("old"),
        place(""),
    ]


async def test_what_has_not_changed_is_not_written_again(reports, server, clock):
    for _ in range(3):
        await reports.write((found(),))
        clock.now += 5
    assert server.writes == 1


async def test_counts_alone_are_written_every_five_minutes(reports, server, clock):
    await reports.write((found(count=4),))
    clock.now += 5
    await reports.write((found(count=5),))
    assert server.writes == 1
    clock.now += COUNT_SECONDS
    await reports.write((found(count=6),))
    assert server.reports[place("shop")]["results"][0]["properties"]["count"] == "6"
    clock.now += 5
    await reports.write((found(count=7, severity=Severity.CRITICAL),))  # that is news
    assert server.reports[place("shop")]["results"][0]["properties"]["count"] == "7"


async def test_a_report_has_the_worst_findings_and_says_how_many_it_left_out(reports, server):
    many = [found(f"f{number}") for number in range(MOST_RESULTS + 5)]
    await reports.write((*many, found("worst", severity=Severity.CRITICAL)))
    report = server.reports[place("shop")]
    assert len(report["results"]) == MOST_RESULTS
    assert report["results"][0]["properties"]["finding"] == "worst"
    assert report["metadata"]["annotations"] == {LEFT_OUT: "6"}
    assert report["summary"]["fail"] + report["summary"]["warn"] == MOST_RESULTS


async def test_reports_and_writes_are_bounded(reports, server, clock):
    many = [found(f"f{number}", f"ns-{number}") for number in range(MOST_REPORTS + 50)]
    await reports.write(many)
    assert server.writes == MOST_WRITES
    for _ in range(MOST_REPORTS // MOST_WRITES + 5):
        clock.now += 5
        await reports.write(many)
    assert server.writes == len(server.reports) == MOST_REPORTS


async def test_a_message_is_cut_and_nothing_in_it_moves_a_cursor(reports, server):
    await reports.write((found(message="\x1b[2J" + "é" * 5000),))
    message = server.reports[place("shop")]["results"][0]["message"]
    assert message.isprintable()
    assert len(message.encode()) <= 512


async def test_without_the_definitions_it_says_what_to_install_and_tries_again_later(
    reports, server, clock, caplog
):
    server.refusal = RefusedError(404, "not found")
    for _ in range(5):
        await reports.write((found(),))
        clock.now += 5
    assert len(server.calls) == 1
    (line,) = [one for one in caplog.records if one.message == "reports not written"]
    assert "install the definitions of OpenReports" in line.facts["reason"]
    server.refusal = None
    clock.now += AGAIN_SECONDS
    await reports.write((found(),))
    assert place("shop") in server.reports


@pytest.mark.parametrize("error", [RefusedError(403, "namespace is being terminated"), OSError()])
async def test_one_report_that_is_refused_holds_up_no_other(reports, server, clock, error):
    await reports.write(())
    server.refusal = error
    await reports.write((found("a", "leaving"),))
    server.refusal = None
    await reports.write((found("a", "leaving"), found("b")))
    assert server.reports.keys() == {place("shop")}
    clock.now += AGAIN_SECONDS + 1
    await reports.write((found("a", "leaving"), found("b")))
    assert server.reports.keys() == {place("shop"), place("leaving")}
    assert dict(reports.counts())["failed",] == 1


async def test_a_namespace_that_is_gone_is_no_trouble_to_log(reports, server, caplog):
    await reports.write(())
    server.refusal = RefusedError(404, 'namespaces "shop" not found')
    await reports.write((found(),))
    assert dict(reports.counts())["failed",] == 1
    assert [one.message for one in caplog.records] == []


async def test_reviews_are_answered_while_thousands_of_findings_are_sorted_out(reports):
    many = [found(f"f{number}", f"ns-{number % 300}") for number in range(3_000)]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(count_turns())
    await reports.write(many)
    other.cancel()
    assert turns > 3_000 / 50 - 2


async def test_a_replica_that_no_longer_leads_writes_nothing(server, clock):
    leader = Leader()
    reports = FindingReports(server, lambda _: "", leader, clock)
    await reports.write(())
    leader.is_leader = False
    await reports.write((found(),))
    assert server.writes == 0
