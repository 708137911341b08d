"""What an audit log gives away: findings by annotation, at each level."""

import json

import msgspec
import pytest

from genguard.audit.document import see_events
from genguard.audit.log import IGNORED
from genguard.generation.custom import CustomResource, StatusSubresource
from genguard.generation.table import load_rows
from tests.unit.audit.samples import (
    CULPRIT,
    Json,
    annotations,
    as_lines,
    audit_log,
    deployment,
    event,
)

NAME = "/".join(CULPRIT)
REMOVES = [{"op": "remove", "path": "/status/observedGeneration"}]


def found(*events: Json, definitions=()):
    log = audit_log(definitions)
    for line in as_lines(events):
        log.see(line)
    return log, {one.detector: one for one in log.findings()}


def patched(operations, **more):
    return [event({"patch": operations}, second=second, **more) for second in range(3)]


def actors(finding):
    return [(one.type, one.name, one.confidence.value) for one in finding.actors]


def test_a_webhook_that_clears_is_named_for_certain():
    sent = deployment(status={"observedGeneration": 1})
    _, by = found(*patched(REMOVES, sent=sent))
    (cleared,) = [one for name, one in by.items() if name == "observed-generation-cleared"]
    assert actors(cleared) == [("webhook", NAME, "certain")]
    assert (cleared.count, cleared.severity.value, cleared.state) == (3, "warning", "open")
    assert cleared.paths == ("/status/observedGeneration",)
    (call,) = cleared.evidence[0]["calls"]
    assert call == {
        "webhook": NAME, "round": 0, "index": 0,
        "operations": [{"op": "remove", "path": "/status/observedGeneration"}],
    }  # fmt: skip
    assert (cleared.object.resource, cleared.object.name) == ("deployments", "web")


def test_once_is_an_anomaly():
    _, by = found(event({"patch": REMOVES}))
    assert by["observed-generation-cleared"].severity.value == "info"


def test_a_loop_becomes_critical_by_count_and_time():
    events = [event({"patch": REMOVES}, second=2 * number) for number in range(21)]
    _, by = found(*events)
    assert by["observed-generation-cleared"].severity.value == "critical"


def test_values_are_never_told():
    patch = [{"op": "replace", "path": "/status/message", "value": "canary-7f3a"}]
    sent = deployment(status={"message": "canary-7f3a"})
    _, by = found(*patched(patch, sent=sent))
    assert by["status-clobbered"].severity.value == "warning"
    assert b"canary" not in msgspec.json.encode(list(by.values()))


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "create"},
        {"verb": "delete"},
        {"code": 409},
        {"query": "?dryRun=All"},
        {"stage": "RequestReceived"},
        {"subresource": ""},
        {"subresource": "scale"},
        {"name": ""},
    ],
)
def test_what_is_no_stored_status_write_is_no_sign(change):
    _, by = found(*patched(REMOVES, **change))
    assert not by


@pytest.mark.parametrize(("group", "resource"), sorted(IGNORED))
def test_records_that_keep_no_generation_are_ignored(group, resource):
    (row,) = [one for one in load_rows() if (one.group, one.resource) == (group, resource)]
    assert not row.observed_generation
    assert all(not one.compare for one in row.behaviour)
    _, by = found(*of_kind(group, resource))
    assert not by


@pytest.mark.parametrize(
    ("group", "resource"),
    [("discovery.k8s.io", "endpointslices"), ("example.org", "events"), ("apps", "leases")],
)
def test_what_only_shares_a_name_with_records_or_has_a_generation_is_judged(group, resource):
    _, by = found(*of_kind(group, resource))
    assert by


def of_kind(group, resource):
    events = patched(REMOVES, resource=resource)
    for one in events:
        one["objectRef"]["apiGroup"] = group
    return events


def test_genguard_is_no_suspect():
    call = {"hook": ("zzzzzz-genguard-mutate", "mutate.genguard.io"), "patch": REMOVES}
    log, by = found(*[event(call, second=second) for second in range(3)])
    assert not by
    assert log.summary()["patches"] == 3


def test_a_patch_that_changed_nothing_is_no_sign():
    _, by = found(*[event({"patch": REMOVES, "mutated": False}) for _ in range(3)])
    assert not by


def test_metadata_alone_is_never_more_than_info():
    calls = [event({"patch": REMOVES}, level="Metadata", second=second) for second in range(30)]
    _, by = found(*calls)
    assert by.keys() == {"status-clobbered"}
    assert by["status-clobbered"].severity.value == "info"
    assert actors(by["status-clobbered"]) == [("webhook", NAME, "likely")]


@pytest.mark.parametrize(("level", "confidence"), [("Metadata", "likely"), ("Request", "certain")])
def test_a_webhook_that_still_changes_in_round_one(level, confidence):
    patch = [{"op": "add", "path": "/metadata/annotations/count", "value": "1"}]
    calls = [{"patch": patch}, {"patch": patch, "round": 1}]
    events = [event(*calls, level=level, subresource="", second=second) for second in range(3)]
    _, by = found(*events)
    assert by.keys() == {"unstable-mutation"}
    assert by["unstable-mutation"].count == 3
    assert actors(by["unstable-mutation"]) == [("webhook", NAME, confidence)]


def test_of_two_webhooks_only_the_one_that_did_it_is_named():
    good = {"hook": ("labels", "l.example.org"), "index": 1, "patch": [
        {"op": "add", "path": "/metadata/labels/a", "value": "b"}]}  # fmt: skip
    _, by = found(*[event({"patch": REMOVES}, good, second=second) for second in range(3)])
    assert actors(by["observed-generation-cleared"]) == [("webhook", NAME, "certain")]


def test_two_that_take_turns_are_both_named():
    other = {"hook": ("other", "o.example.org"), "patch": REMOVES}
    calls = [{"patch": REMOVES}, other, {"patch": REMOVES}]
    _, by = found(*[event(call, second=second) for second, call in enumerate(calls)])
    assert actors(by["observed-generation-cleared"]) == [
        ("webhook", NAME, "certain"), ("webhook", "other/o.example.org", "certain")
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
def test_a_spec_that_is_asked_for_again_and_never_given(level):
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 1}]
    events = [
        event(
            {"patch": patch},
            second=second,
            level=level,
            subresource="",
            sent=deployment(1, 7, spec={"replicas": 5}),
            stored=deployment(1, 7, spec={"replicas": 1}),
        )
        for second in range(5)
    ]
    _, by = found(*events)
    assert by["spec-fight"].count >= 3
    assert by["spec-fight"].severity.value == "warning"
    assert by["spec-fight"].paths == ("/spec/replicas",)
    assert actors(by["spec-fight"]) == [("webhook", NAME, "certain")]


def test_a_default_that_each_put_leaves_out_is_no_fight():
    patch = [{"op": "add", "path": "/spec/paused", "value": False}]
    sent = deployment(spec={"replicas": 1})
    _, by = found(*patched(patch, sent=sent, subresource=""))
    assert not by


def test_a_spec_that_only_a_webhook_changes_counts():
    events = []
    for number in range(4):
        sent = deployment(number + 1, number + 1, spec={"replicas": number})
        stored = deployment(number + 2, number + 2, spec={"replicas": number + 1})
        patch = [{"op": "replace", "path": "/spec/replicas", "value": number + 1}]
        events.append(
            event({"patch": patch}, second=number, level="RequestResponse", subresource="",
                  sent=sent, stored=stored)
        )  # fmt: skip
    _, by = found(*events)
    assert by.keys() == {"generation-storm"}
    assert by["generation-storm"].count == 3
    assert actors(by["generation-storm"]) == [("webhook", NAME, "certain")]


@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
def test_a_status_that_is_asked_for_again_and_again(level):
    sent = {"status": {"phase": "Running", "observedGeneration": 1}}
    events = [
        event(
            {"patch": REMOVES}, second=second / 10, level=level, verb="patch", user="kubelet",
            sent=sent, stored=deployment(1, second, status={"phase": "Running"}),
        )
        for second in range(12)
    ]  # fmt: skip
    _, by = found(*events)
    storm = by["status-write-storm"]
    assert storm.count >= 3
    assert ("webhook", NAME, "certain") in actors(storm)


def test_a_writer_that_chases_generation_without_a_status_subresource():
    events = [
        event(
            second=number, level="RequestResponse", subresource="", user="vpa", resource="vpas",
            sent=deployment(number, number, status={"observedGeneration": number}),
            stored=deployment(number + 1, number + 1, status={"observedGeneration": number}),
        )
        for number in range(1, 12)
    ]  # fmt: skip
    plain = CustomResource("apps", "v1", "vpas", "Vpa", StatusSubresource.ABSENT)
    _, by = found(*events, definitions=(plain,))
    assert by["generation-storm"].severity.value == "warning"
    assert actors(by["generation-storm"]) == [("user", "vpa", "certain")]


QUIET = {
    "a controller's status": lambda n: event(
        second=n, level="RequestResponse", sent=deployment(1, n, status={"replicas": n}),
        stored=deployment(1, n + 1, status={"replicas": n}),
    ),
    "equal patches that store nothing": lambda n: event(
        second=n, level="RequestResponse", verb="patch", sent={"status": {"replicas": 1}},
        stored=deployment(1, 1, status={"replicas": 1}),
    ),
    "equal patches at Request": lambda n: event(
        second=n, verb="patch", sent={"status": {"replicas": 1}}
    ),
    "a label at each write": lambda n: event(
        {"patch": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]},
        second=n, sent=deployment(status={"replicas": n}),
    ),
    "a condition that is added": lambda n: event(
        {"patch": [{"op": "add", "path": "/status/conditions/-", "value": {"type": "Seen"}}]},
        second=n, sent=deployment(status={"replicas": n, "conditions": []}),
    ),
    "rollouts": lambda n: event(
        second=n, level="RequestResponse", subresource="",
        sent=deployment(n, n, spec={"image": n}),
        stored=deployment(n + 1, n + 1, spec={"image": n}),
    ),
    "two users": lambda n: event(second=n, sent=deployment(status={"by": n}), user=f"u{n % 2}"),
}  # fmt: skip


@pytest.mark.parametrize("make", QUIET.values(), ids=QUIET)
def test_ordinary_writes_are_no_finding(make):
    _, by = found(*[make(number) for number in range(1, 40)])
    assert not by


def test_a_finding_resolves_when_the_log_goes_on_without_it():
    late = event(second=500, name="other")
    _, by = found(*patched(REMOVES), late)
    assert by["observed-generation-cleared"].state == "resolved"


def test_the_summary_counts_by_webhook():
    failed = {
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2": "away.example.org",
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "judge.example.org",
    }
    events = [event({"patch": REMOVES}, {"index": 1, "mutated": False, "hook": ("a", "b")})]
    events += [event(annotations=failed), event(annotations=failed, verb="create")]
    log, _ = found(*events)
    assert log.summary() == {
        "events": 3, "patches": 1, "webhooks": {NAME: 1},
        "failedOpen": {"away.example.org": 2, "judge.example.org": 2},
    }  # fmt: skip


def test_a_list_is_read_as_its_items():
    items = [event({"patch": REMOVES}, second=second) for second in range(3)]
    log = audit_log()
    document = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items}
    assert not list(see_events(json.dumps(document).encode(), "EventList", log.see))
    assert log.summary()["events"] == 3
    assert next(log.findings()).count == 3


def test_levels_may_be_mixed():
    levels = ["Metadata", "Request", "RequestResponse"] * 3
    events = [
        event({"patch": REMOVES}, second=second, level=level, sent=deployment(status={"a": 1}),
              stored=deployment(status={"a": 1}))
        for second, level in enumerate(levels)
    ]  # fmt: skip
    events.append(event({"patch": REMOVES}, verb="patch", sent={"status": {}}, second=9))
    _, by = found(*events)
    assert by["observed-generation-cleared"].count == 7


@pytest.mark.parametrize(
    "value", ['{"patch": 3}', "no json", '{"patch": [{"op": 1}]}', "[" * 100_000]
)
def test_annotations_that_no_api_server_writes_are_told(value):
    key = "patch.webhook.admission.k8s.io/round_0_index_0"
    strange = event(annotations={**annotations({}), key: value})
    log = audit_log()
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        log.see(as_lines([strange])[0])


@pytest.mark.parametrize("place", ["round_x_index_0", "round_0", "", "round_0_index_9999999999"])
def test_annotations_of_another_form_are_passed_over(place):
    log, by = found(event(annotations={f"mutation.webhook.admission.k8s.io/{place}": "{}"}))
    assert log.summary()["webhooks"] == {}
    assert not by
