"""What an audit log gives away: findings by annotation, at each level."""

import msgspec
import pytest
import yaml

from genguard.audit.log import IGNORED
from genguard.generation.table import load_rows
from tests.cases_loader import table
from tests.unit.audit.samples import CLEARS, CULPRIT, Json, as_lines, audit_log, event, statuses

NAME = "/".join(CULPRIT)
CLEARED = "observed-generation-cleared"
OBSERVED = {"observedGeneration": 1}
WHOLE = "RequestResponse"


def found(*events: Json, definitions=()):
    log = audit_log(definitions)
    for line in as_lines(events):
        log.see(line)
    return log, {one.detector: one for one in log.findings()}


def cleared(count=3, *calls: Json, **more):
    return statuses(count, *(calls or (CLEARS,)), asked=OBSERVED, kept={}, **more)


def actors(finding):
    return [(one.type, one.name, one.confidence.value) for one in finding.actors]


def test_a_webhook_that_clears_is_named_for_certain():
    _, by = found(*cleared())
    assert by.keys() == {CLEARED}
    one = by[CLEARED]
    assert actors(one) == [("webhook", NAME, "certain")]
    assert (one.count, one.severity.value, one.state) == (3, "warning", "open")
    assert one.paths == ("/status/observedGeneration",)
    (call,) = one.evidence[0]["calls"]
    assert call == {
        "webhook": NAME, "round": 0, "index": 0,
        "operations": [{"op": "remove", "path": "/status/observedGeneration"}],
    }  # fmt: skip
    assert (one.object.resource, one.object.name) == ("deployments", "web")


def test_values_are_never_told():
    call = {"patch": [{"op": "replace", "path": "/status/message", "value": "canary-7f3a"}]}
    asked, kept = {"message": "canary-8e4b"}, {"message": "canary-7f3a"}
    _, by = found(*statuses(4, call, asked=asked, kept=kept))
    assert by["status-clobbered"].severity.value == "warning"
    assert b"canary" not in msgspec.json.encode(list(by.values()))


@pytest.mark.parametrize(("group", "resource"), sorted(IGNORED))
def test_records_that_keep_no_generation_are_ignored(group, resource):
    (row,) = [one for one in load_rows() if (one.group, one.resource) == (group, resource)]
    assert not row.observed_generation
    assert all(not one.compare for one in row.behaviour)
    log, by = found(*of_kind(group, resource))
    assert not by
    assert "notExamined" not in log.summary()


@pytest.mark.parametrize(
    ("group", "resource"),
    [("discovery.k8s.io", "endpointslices"), ("example.org", "events"), ("apps", "leases")],
)
def test_what_only_shares_a_name_with_records_or_has_a_generation_is_examined(group, resource):
    _, by = found(*of_kind(group, resource))
    assert by


def of_kind(group, resource):
    events = cleared(resource=resource)
    for one in events:
        one["objectRef"]["apiGroup"] = group
    return events


def test_genguard_is_not_among_them():
    log, by = found(
        *cleared(3, {"hook": ("zzzzzz-genguard-mutate", "mutate.genguard.io"), **CLEARS})
    )
    assert not by
    assert log.summary()["patches"] == 3


def test_a_webhook_that_still_changes_in_round_one():
    first, second = (
        [{"op": "add", "path": "/metadata/annotations", "value": {"count": str(count)}}]
        for count in (1, 2)
    )
    calls = [{"patch": first}, {"patch": second, "round": 1}]
    events = statuses(4, *calls, subresource="", asked={})
    for one in events[1:]:
        one["responseObject"]["metadata"]["annotations"] = {"count": "2"}
    log, by = found(*events)
    assert actors(by["unstable-mutation"]) == [("webhook", NAME, "certain")]
    assert log.summary()["reinvoked"] == {NAME: 4}


def test_the_summary_counts_by_webhook():
    failed = {
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2": "away.example.org",
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "examine.example.org",
    }
    events = [event(CLEARS, {"index": 1, "mutated": False, "hook": ("a", "b")}, level=WHOLE)]
    events += [
        event(annotations=failed, level=WHOLE, verb="get"),
        event(annotations=failed, level=WHOLE, verb="list"),
    ]
    log, _ = found(*events)
    assert counts(log) == {
        "events": 3, "patches": 1, "webhooks": {NAME: 1},
        "failedOpen": {"away.example.org": 2, "examine.example.org": 2},
    }  # fmt: skip


def counts(log):
    return {key: value for key, value in log.summary().items() if key != "notExamined"}


def unexamined(log):
    return [(one["reason"], one["writes"]) for one in log.summary().get("notExamined", ())]


@pytest.mark.parametrize("level", ["Metadata", "Request"])
def test_below_level_request_response_writes_are_counted_and_nothing_is_found(level):
    refused = [event(level=level, code=422, subresource="", second=second) for second in range(9)]
    again = {**CLEARS, "round": 1}
    log, by = found(*cleared(5, CLEARS, again, level=level), *refused)
    assert not by
    assert log.is_blind
    assert (log.summary()["refused"], log.summary()["reinvoked"]) == (9, {NAME: 5})
    (one,) = log.summary()["notExamined"]
    assert (one["reason"], one["writes"]) == (f"level {level}", 15)
    assert asked_in(one["message"]) == [{"group": "apps"}]


def asked_in(message):
    (rule,) = yaml.safe_load(message.partition("rules of the audit policy: ")[2])
    return rule["resources"]


@pytest.mark.parametrize("resource", ["secrets", "configmaps", "serviceaccounts"])
def test_the_rule_that_the_policy_lacks_names_all_groups_and_asks_for_no_secrets(resource):
    events = []
    for number, group in enumerate(("g1", "", "g2", 'x}, {group: ""')):
        one = event(level="Metadata", subresource="", resource="things" if group else "pods")
        one["objectRef"]["apiGroup"] = group
        events += [one] * (9 - number)
    secret = event(level="Metadata", subresource="", resource=resource)
    secret["objectRef"]["apiGroup"] = ""
    log, _ = found(*events, secret)
    (one,) = log.summary()["notExamined"]
    assert asked_in(one["message"]) == [
        {"group": "g1"}, {"group": "g2"}, {"group": "", "resources": ["pods", "pods/*"]},
    ]  # fmt: skip
    log, _ = found(secret)
    (one,) = log.summary()["notExamined"]
    assert one["message"].endswith("needs level RequestResponse")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (statuses(0), "stored state not known"),
        ([event(level=WHOLE, annotations={"audit.k8s.io/truncated": "true"})], "cut"),
        (
            statuses(1, {"patch": [{"op": "test", "path": "/status/a", "value": 1}]})[-2:],
            "patches do not apply",
        ),
    ],
)
def test_the_reason_why_a_write_is_not_examined_is_told(events, reason):
    log, _ = found(*events)
    assert (reason, 1) in unexamined(log)
    assert not log.is_blind


@table("audit/never_examined.yaml", "change")
@pytest.mark.parametrize("level", ["Metadata", "Request", WHOLE])
def test_what_is_never_examined_is_not_missed(level, case):
    change = case["change"]
    one = event(**{**change, "level": level, "subresource": change.get("subresource", "")})
    one["objectRef"]["apiGroup"] = change.get("group", "apps")
    log, by = found(one)
    assert not by
    assert not unexamined(log)


def test_a_write_that_does_not_show_its_result_makes_the_stored_state_unknown():
    events = cleared(6)
    events[3] |= {"level": "Metadata"}
    log, by = found(*events)
    assert by[CLEARED].count == 4
    assert ("stored state not known", 2) in unexamined(log)


@pytest.mark.parametrize("place", ["round_x_index_0", "round_0", "", "round_0_index_9999999999"])
def test_annotations_of_another_form_are_passed_over(place):
    log, by = found(event(annotations={f"mutation.webhook.admission.k8s.io/{place}": "{}"}))
    assert log.summary()["webhooks"] == {}
    assert not by
