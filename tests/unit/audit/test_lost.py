"""What one patch takes from a status, by its operations."""

import pytest

from genguard.audit.event import Operation
from genguard.audit.signs import lost_status
from tests.cases_loader import table


@table("audit/lost.yaml", "patch", "sent", "observed", "terminating", "other")
def test_lost(case):
    operations = [
        Operation(one["op"], one["path"], source=one.get("from", ""), **value(one))
        for one in case["patch"]
    ]
    lost = lost_status(operations, case.get("sent"))
    wanted = [tuple(case.get(key, ())) for key in ("observed", "terminating", "other")]
    assert list(lost) == wanted, case.because


def value(one):
    return {"value": one["value"]} if "value" in one else {}


@pytest.mark.parametrize("path", ["status", "~", "/status/" + "9" * 400 + "/a"])
def test_strange_pointers_do_not_raise(path):
    lost_status([Operation("add", path), Operation("remove", path)], {"status": {"a": []}})
