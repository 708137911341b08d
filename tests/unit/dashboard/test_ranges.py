"""Objects within a time, the worst or the latest first."""

import pytest
from msgspec.structs import replace

from tests.dashboard.crowd import state
from webhook.dashboard.objects import page, parse
from webhook.dashboard.page import BadQueryError
from webhook.status.kind_counts import ResourceKind
from webhook.status.tracking import Tracking

NOW = 1_000_000.0
POD = ResourceKind("", "pods", "Pod")


def tracking():
    """Number 0 is bad, and changed last an hour ago; 1 to 3 changed 1 to 3 minutes ago."""
    found = Tracking()
    for number in range(4):
        changed = NOW - (60.0 * number if number else 3_601.0)
        found.restore(f"uid-{number}", POD, replace(state(number, "", NOW), changed_at=changed))
    return found


@pytest.mark.parametrize(
    ("query", "uids"),
    [
        ({}, ["uid-0", "uid-3", "uid-2", "uid-1"]),
        ({"order": "latest"}, ["uid-1", "uid-2", "uid-3", "uid-0"]),
        ({"since": "1h"}, ["uid-3", "uid-2", "uid-1"]),
        ({"since": "5m", "order": "latest"}, ["uid-1", "uid-2", "uid-3"]),
        ({"since": "6h"}, ["uid-0", "uid-3", "uid-2", "uid-1"]),
    ],
)
async def test_a_time_range_and_an_order(query, uids):
    found = await page(tracking(), parse(query), NOW)
    assert [one.uid for one in found.objects] == uids
    assert found.total == len(uids)


async def test_pages_follow_one_another_in_either_order():
    for order in ("worst", "latest"):
        seen, token = [], ""
        for _ in range(4):
            asked = parse({"order": order, "limit": "1", "continue": token})
            found = await page(tracking(), asked, NOW)
            seen += [one.uid for one in found.objects]
            token = found.next
        assert len(set(seen)) == 4
        assert not token


@pytest.mark.parametrize("query", [{"since": "2h"}, {"order": "name"}])
def test_what_is_no_choice_is_told(query):
    with pytest.raises(BadQueryError, match="must be one of"):
        parse(query)
