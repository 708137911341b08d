"""A line for each turn: who does what where, and nothing out of the object."""

import json
import logging

import pytest

from genguard.detection.finding import Severity
from tests.cases_loader import read_beside, table
from tests.unit.alerts.findings import CANARY, change
from webhook.alerts.change import Transition, log_changes
from webhook.telemetry.logs import JSONFormatter


@pytest.fixture(autouse=True)
def everything(caplog):
    caplog.set_level(logging.DEBUG, "genguard")


async def test_a_line_says_what_where_and_who(caplog):
    await log_changes((change(Transition.ESCALATED),), ())
    (record,) = caplog.records
    line = json.loads(JSONFormatter().format(record))
    del line["time"]
    assert line == read_beside(__file__, "line.yaml")


async def test_nothing_out_of_the_object_is_logged(caplog):
    told = change(Transition.OPENED)
    assert CANARY in str(told.finding.evidence)
    await log_changes((told,), (told.finding,))
    assert CANARY not in JSONFormatter().format(caplog.records[0])


@table("alerts/levels.yaml", "severity", "turn", "level")
async def test_the_level_is_the_severity_and_good_news_is_info(caplog, case):
    await log_changes((change(Transition(case["turn"]), severity=Severity(case["severity"])),), ())
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        (case["level"], f"finding {case['turn']}")
    ]


async def test_what_follows_from_another_finding_names_it_and_is_no_warning(caplog):
    folded = change(Transition.FOLDED, severity=Severity.INFO, caused_by="fedcba9876543210")
    await log_changes((folded,), ())
    (record,) = caplog.records
    line = json.loads(JSONFormatter().format(record))
    assert (line["level"], line["message"]) == ("info", "finding folded")
    assert line["causedBy"] == "fedcba9876543210"
