"""Objects that come and go, and writes that are refused, as an audit log shows them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases_loader import table
from tests.unit.audit.samples import CULPRIT, Json, as_lines, audit_log, deployment, event

WHOLE = "RequestResponse"


def findings(*events: Json) -> dict[str, Any]:
    log = audit_log()
    for line in as_lines(events):
        log.see(line)
    return {one.detector: one for one in log.findings()}


def turns(
    count: int, deleter: str = "bob", *, level: str = WHOLE, of: str = "jobs", **more: Any
) -> Iterator[Json]:
    """One creates a name, and another deletes it."""
    for turn in range(count):
        made = deployment()
        made["metadata"] |= {"uid": f"u-{turn}"}
        common = {"resource": of, "subresource": "", "level": level}
        yield event(
            second=2 * turn, verb="create", user="alice", sent=deployment(), stored=made, code=201,
            **common,
        )  # fmt: skip
        if "ends" in more:
            sent, stored = {"status": more["ends"]}, made | {"status": more["ends"]}
            yield event(
                second=2 * turn + 0.5, verb="patch", sent=sent, stored=stored, resource=of,
                level=level,
            )  # fmt: skip
        yield event(
            second=2 * turn + 1, verb=more.get("verb", "delete"), user=deleter,
            **(common | {"subresource": more.get("to", "")}),
        )  # fmt: skip


def refused(
    count: int, code: int = 403, every: float = 1.0, *calls: Json, **more: Any
) -> list[Json]:
    status = {"code": code, "reason": "Forbidden", **more.pop("status", {})}
    sent = more.pop("sent", {"spec": {"a": 1}})
    common = {"level": WHOLE, "verb": "update", "user": "gitops", "subresource": "", **more}
    begin, name = common.pop("second", 0.0), common.pop("name", "web")
    times = [begin + every * number for number in range(count)]
    return [
        event(*calls, second=second, sent=sent, name=name.format(number), **common)
        | {"responseStatus": status}
        for number, second in enumerate(times)
    ]


def actors(finding: Any) -> list[str]:
    return [one.name for one in finding.actors]


@pytest.mark.parametrize("level", ["Metadata", WHOLE])
@pytest.mark.parametrize("subresource", ["binding", "status"])
def test_a_write_that_does_not_show_its_result_hides_no_deletion(level, subresource):
    events = []
    several = turns(6)
    for made, gone in zip(several, several, strict=True):
        between = event(verb="patch", resource="jobs", level=level, subresource=subresource)
        events += [made, between, gone]
    assert list(findings(*events)) == ["recreation"]


@table("audit/quiet.yaml", "turns", "refused")
def test_what_is_no_loop_is_quiet(case):
    events = turns(**case["turns"]) if case.get("turns") else refused(**case["refused"])
    assert not findings(*events), case.because


def _plain(one: Json) -> Json:
    return {key: value for key, value in one.items() if key != "at"}


@table("audit/again.yaml", "refused", "finds", "known")
def test_what_is_refused_again_and_again_is_told(case):
    events = []
    if known := case.get("known"):
        made = deployment(**known)
        stored = made | {"metadata": known.get("metadata", {}) | deployment()["metadata"]}
        events = [event(level=WHOLE, subresource="", sent=deployment(), stored=stored)]
    for turn, one in enumerate(case["refused"]):
        begins = one.get("at", [2.0 + turn])
        events += [event for at in begins for event in refused(**{"second": at} | _plain(one))]
    found = findings(*events)
    expected = case.get("finds")
    assert list(found) == (["refused-retry"] if expected else []), case.because
    if expected:
        one = found["refused-retry"]
        told = {"paths": sorted(one.paths), "actors": actors(one), "message": one.message}
        assert {key: told[key] for key in expected} == expected, case.because


@pytest.mark.parametrize("code", [400, 403, 413, 422])
@pytest.mark.parametrize("verb", ["update", "patch", "create"])
@pytest.mark.parametrize("known", ["unknown", "written", "created"])
def test_a_write_that_is_refused_again_and_again(code, verb, known):
    sent = deployment(1, 1, spec={"a": 1}) if verb != "patch" else {"spec": {"a": 1}}
    found = findings(*before(known), *refused(6, code, second=2.0, verb=verb, sent=sent))
    assert list(found) == ["refused-retry"]
    one = found["refused-retry"]
    assert actors(one) == ["gitops"]
    what = "creates" if verb == "create" else "writes"
    assert one.message == f"gitops {what} it again and again: it has no outcome"
    assert (one.severity.value, one.object.name) == ("warning", "web")


def before(known: str) -> list[Json]:
    return {
        "unknown": [],
        "written": [event(level=WHOLE, sent=deployment(status={}), stored=deployment(status={}))],
        "created": [
            event(
                level=WHOLE, verb="create", subresource="", code=201,
                sent=deployment(), stored=deployment(),
            )
        ],
    }[known]  # fmt: skip


@pytest.mark.parametrize("known", ["unknown", "written", "created"])
def test_writes_that_ask_for_something_else_each_time_and_are_all_refused(known):
    tries = [
        one
        for turn in range(20)
        for one in refused(
            1, 422, second=1.0 + turn, verb="patch", subresource="status",
            sent={"status": {"message": f"try {turn}"}},
        )
    ]  # fmt: skip
    found = findings(*before(known), *tries)["refused-retry"]
    assert (found.severity.value, actors(found)) == ("warning", ["gitops"])
    assert found.subresource == "status"
    assert "/status/message" in found.paths


@pytest.mark.parametrize("known", ["unknown", "written", "created"])
def test_an_applied_field_that_others_own_names_their_managers(known):
    causes = [
        {"reason": "FieldManagerConflict", "field": ".spec.a", "message": f"conflict with {one}"}
        for one in ('"helm" using apps/v1 at 2026-01-01T00:00:00Z', '"flux" with subresource "x"')
    ]
    status = {"reason": "Conflict", "details": {"causes": causes}}
    more = {"verb": "patch", "status": status, "second": 2.0}
    found = findings(*before(known), *refused(6, 409, **more))["refused-retry"]
    told = "gitops writes it again and again: flux and helm own fields that it applies"
    assert (found.message, actors(found)) == (told, ["gitops"])


def test_a_webhook_that_does_not_answer_refuses():
    message = "failed calling webhook of canary-7f3a"
    found = findings(*refused(6, 500, status={"message": message}))["refused-retry"]
    assert "canary-7f3a" not in str(found)


def test_a_creation_of_a_generated_name_is_known_by_its_prefix():
    sent = {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "web-"}}
    found = findings(*refused(6, verb="create", name="", sent=sent))["refused-retry"]
    assert found.object.name == "web-"
    assert "creates" in found.message


@pytest.mark.parametrize("verb", ["update", "create"])
@table("audit/named.yaml", "path", "field", "named")
def test_a_webhook_is_named_if_the_answer_names_what_it_has_set(case, verb):
    call = {"patch": [{"op": "add", "path": case["path"], "value": -1}]}
    status = {"reason": "Invalid", "details": {"causes": [{"field": case["field"]}]}}
    sent = deployment(
        metadata={"name": "web", "labels": {"a": "b"}}, spec={"containers": [{"image": "a"}]}
    )
    tries = refused(6, 422, 1.0, call, status=status, sent=sent, verb=verb)
    found = findings(*tries)["refused-retry"]
    expected = ["/".join(CULPRIT)] if case["named"] else ["gitops"]
    assert actors(found) == expected, case.because
