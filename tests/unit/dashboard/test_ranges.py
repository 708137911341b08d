"""Objects within a time, the worst first."""

import pytest
from msgspec.structs import replace

from genguard.detection.finding import FoundObject, Severity
from genguard.status.counts import ResourceKind
from genguard.status.tracking import Tracking
from tests.cases_loader import table
from tests.dashboard.crowd import state
from tests.unit.alerts.findings import finding
from tests.unit.status.story import put
from webhook.dashboard.objects import OpenFindings, page, parse
from webhook.dashboard.rendering import parse_time

NOW = 1_000_000.0
POD = ResourceKind("", "pods", "Pod")
NAMED = FoundObject("", "v1", "pods", "team-1", "thing-1", "")


def tracking():
    """Number 0 is bad, and changed last an hour ago; 1 to 3 changed 1 to 3 minutes ago."""
    found = Tracking()
    for number in range(4):
        changed = NOW - (60.0 * number if number else 3_601.0)
        put(found, f"uid-{number}", POD, replace(state(number, "", NOW), changed_at=changed))
    return found


@table("dashboard/ranges.yaml", "query", "numbers")
async def test_a_time_range_leaves_out_what_did_not_change_in_it(case):
    found = await page(tracking(), parse(case["query"]), NOW)
    assert [one.uid for one in found.objects] == [f"uid-{number}" for number in case["numbers"]], (
        case.because
    )
    assert found.total == len(case["numbers"])


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([{}], (1, "warning")),
        ([{}, {"severity": Severity.CRITICAL}], (2, "critical")),
        ([{"severity": Severity.CRITICAL, "state": "resolved"}], (0, "")),
        ([{"severity": Severity.CRITICAL, "resolves_after": 60.0}], (1, "ending")),
        ([{"severity": Severity.INFO, "resolves_after": 60.0}], (1, "info")),
        ([{"object": NAMED}], (1, "warning")),
        ([{"object": replace(NAMED, name="another")}], (0, "")),
    ],
)
async def test_an_object_says_which_findings_are_open_about_it_and_keeps_its_health(changes, shown):
    where = FoundObject("", "v1", "pods", "team-1", "thing-1", "uid-1")
    found = [finding(**{"object": where, "state": "open", **each}) for each in changes]
    at = parse_time(found[0].last_seen) + 40.0
    objects = (await page(tracking(), parse({}), at, OpenFindings(found, at))).objects
    by_uid = {one.uid: (one.open_findings, one.worst_finding) for one in objects}
    assert by_uid.pop("uid-1") == shown
    assert set(by_uid.values()) == {(0, "")}
    without = (await page(tracking(), parse({}), at)).objects
    assert [one.health for one in without] == [one.health for one in objects]
