"""Findings of one cause are one group, with what follows beneath; large groups stay usable."""

from genguard.detection.finding import Actor, Confidence, Severity
from genguard.status.view import Health
from tests.cases_loader import table
from tests.unit.alerts.findings import finding, on
from webhook.dashboard.broken import NotSettled
from webhook.dashboard.finding_lists import LEAST_ROWS, MOST_GROUPS, arrange, count_open, parse
from webhook.dashboard.headlines import above_of, kinds

KIND_OF = kinds(())


def asked(**query):
    return parse(query, state="all", limit=100)


WORST = asked()


def by(name: str) -> tuple[Actor, ...]:
    return (Actor("webhook", f"{name}/hook", "", Confidence.CERTAIN),)


def many(count: int, culprits: int = 1):
    return [
        finding(id=f"f{n}", object=on(f"web-{n}"), actors=by(f"operator-{n % culprits}"))
        for n in range(count)
    ]


def not_settled(name: str, blamed: str) -> NotSettled:
    return NotSettled(
        group="apps",
        resource="replicasets",
        kind="ReplicaSet",
        namespace="shop",
        name=name,
        uid=name,
        health=Health.YELLOW,
        since="2026-01-02T03:04:05Z",
        blocks="status.observedGeneration 0, want 1",
        blocked_object="",
        more=0,
        stuck=True,
        finding=blamed,
    )


def test_findings_of_one_culprit_are_one_group_with_a_sentence():
    shown = arrange(
        [
            finding(id="a", object=on("web"), actors=by("old")),
            finding(id="b", object=on("db"), actors=by("other")),
            finding(id="c", object=on("cart"), actors=by("old")),
        ],
        (),
        WORST,
        (),
        KIND_OF,
    )
    assert [[row.finding.id for row in group.rows] for group in shown.groups] == [["a", "c"], ["b"]]
    assert shown.groups[0].headline == "old clears observedGeneration of 2 Deployments"
    assert shown.groups[0].rows[0].headline == "clears observedGeneration of Deployment shop/web"
    assert shown.groups[1].headline == ""
    assert shown.groups[1].rows[0].headline.startswith("other clears")


def test_what_follows_stands_beneath_its_cause_whoever_is_blamed_for_it():
    root = finding(id="root", actors=by("old"))
    child = finding(id="child", actors=by("controller"), caused_by="root", severity=Severity.INFO)
    shown = arrange([root, child], [root, child], WORST, (), KIND_OF)
    ((row,),) = (group.rows for group in shown.groups)
    assert [one.id for one in row.consequences] == ["child"]


@table("dashboard/told_once.yaml", "findings", "above")
def test_what_one_culprit_does_to_one_object_is_told_once(case):
    found = []
    for name, (culprit, where, detector, *more) in case["findings"].items():
        changes = {"severity": "warning", **dict(*more)}
        changes["severity"] = Severity(changes["severity"])
        actors = by(culprit) if culprit else ()
        found.append(
            finding(id=name, object=on(where), detector=detector, actors=actors, **changes)
        )
    above = above_of(found)
    assert above == case["above"], case.because
    counted = count_open(found)
    assert sum(counted.values()) == sum(x.state != "resolved" for x in found) - len(above)
    shown = arrange(found, found, WORST, [not_settled("web", "a")], KIND_OF)
    rows = {row.finding.id: row for group in shown.groups for row in group.rows}
    assert rows.keys() == case["findings"].keys() - above.keys()
    assert shown.total == len(rows)
    assert {x.id for row in rows.values() for x in row.consequences} == above.keys()
    if place := above.get("a"):
        assert rows[place].not_settled, "the object stands beneath the row, whichever is to blame"


def test_where_the_cause_is_filtered_out_what_follows_stands_alone():
    root = finding(id="root")
    child = finding(id="child", caused_by="root")
    shown = arrange([child], [root, child], WORST, (), KIND_OF)
    assert [row.finding.id for group in shown.groups for row in group.rows] == ["child"]


def test_objects_that_are_not_settled_stand_beneath_the_finding_that_is_to_blame():
    found = [finding(id="a", object=on("web")), finding(id="b", object=on("cart"))]
    things = [not_settled("web-1", "b"), not_settled("alone", "")]
    shown = arrange(found, found, WORST, things, KIND_OF)
    ((first, second),) = (group.rows for group in shown.groups)
    assert (first.finding.id, [one.name for one in first.not_settled]) == ("b", ["web-1"])
    assert not second.not_settled


def test_of_equal_severity_what_keeps_objects_from_being_settled_comes_first():
    found = [
        finding(id="bad", severity=Severity.CRITICAL, actors=by("bad")),
        finding(id="latest", actors=by("latest")),
        finding(id="blamed", actors=by("blamed")),
    ]
    shown = arrange(found, found, WORST, [not_settled("web-1", "blamed")], KIND_OF)
    ids = [row.finding.id for group in shown.groups for row in group.rows]
    assert ids == ["bad", "blamed", "latest"]


def test_a_large_group_shows_its_worst_rows_and_says_how_many_there_are():
    found = [*many(500), *many(20, culprits=20)]
    shown = arrange(found, (), WORST, (), KIND_OF)
    assert len(shown.groups) == MOST_GROUPS
    assert len(shown.groups[0].rows) == LEAST_ROWS
    assert shown.groups[0].more == 501 - LEAST_ROWS
    assert shown.groups[0].culprit == "operator-0"


def test_the_worst_come_first_then_the_latest_and_what_is_resolved_last():
    found = [
        finding(id="over", severity=Severity.CRITICAL, state="resolved"),
        finding(id="old", first_seen="2025-01-01T00:00:00Z"),
        finding(id="latest"),
        finding(id="worst", severity=Severity.CRITICAL),
    ]
    shown = WORST.find(found, 0.0)
    assert [one.id for one in shown] == ["worst", "latest", "old", "over"]
