"""`genguard findings` beside an ops port that answers as told, and what names culprits."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from click.testing import CliRunner

from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.status.assessment import assess
from tests.unit.cli.test_blame import serving
from webhook.cli import main
from webhook.cli.culprits import Culprits

OLD = Actor("webhook", "mmm-old/status.example.org", "", Confidence.CERTAIN)
CONTROLLER = Actor("user", "deployment-controller", "", Confidence.LIKELY)


def ago(**time: float) -> str:
    return (
        (datetime.now(UTC) - timedelta(**time)).isoformat(timespec="seconds").replace("+00:00", "Z")
    )


def finding(name: str, **changes) -> Finding:
    found = Finding(
        id=name,
        detector="observed-generation-cleared",
        severity=Severity.CRITICAL,
        state="open",
        object=FoundObject("apps", "v1", "deployments", "shop", "web", "u1"),
        subresource="status",
        paths=("/status/observedGeneration",),
        actors=(OLD,),
        count=50,
        first_seen=ago(hours=3),
        last_seen=ago(seconds=30),
        message="another webhook cleared 1 observedGeneration value(s)",
        evidence=(),
    )
    return msgspec.structs.replace(found, **changes)


PODS = FoundObject("", "v1", "pods", "shop", "web-1", "u2")


def three() -> tuple[Finding, ...]:
    """Findings whose times are counted back from now."""
    return (
        finding("f1"),
        finding("f2", severity=Severity.INFO, caused_by="f1", actors=(CONTROLLER,)),
        finding("f3", severity=Severity.WARNING, object=PODS, last_seen=ago(hours=2)),
    )


def run(*words: str, found=None):
    found = three() if found is None else found
    page = msgspec.json.encode({"findings": found, "total": len(found)})
    with serving({"/api/findings": page}) as server:
        return CliRunner().invoke(main, ["findings", "--server", server, *words])


def ids(result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line.removeprefix("finding/") for line in result.stdout.splitlines()]


def test_the_table_has_a_row_for_each_and_what_follows_is_beneath_its_cause():
    head, *rows = run().stdout.splitlines()
    assert head.split() == [
        *("ID", "SEVERITY", "STATE", "DETECTOR", "OBJECT", "COUNT", "LAST", "CULPRIT")
    ]
    assert rows[0].split()[:6] == [
        *("f1", "critical", "open", "observed-generation-cleared", "deployments.apps", "shop/web")
    ]
    assert rows[0].endswith("mmm-old/status.example.org (certain)")
    assert "└ observed-generation-cleared" in rows[1]
    assert " 120m " in rows[2] or " 2h " in rows[2]
    assert len(rows) == 3


def test_wide_has_the_fields_and_the_message():
    row = run("-o", "wide").stdout.splitlines()[1]
    assert "status.observedGeneration" in row
    assert row.endswith("another webhook cleared 1 observedGeneration value(s)")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), ["f1", "f2", "f3"]),
        (("--severity", "warning"), ["f1", "f3"]),
        (("--severity", "critical"), ["f1"]),
        (("--since", "10m"), ["f1", "f2"]),
        (("deploy",), ["f1", "f2"]),
        (("deployments.apps/web",), ["f1", "f2"]),
        (("pod/web-1",), ["f3"]),
    ],
)
def test_filters_choose_by_least_severity_time_and_object(words, wanted):
    assert ids(run("-o", "name", *words)) == wanted


def test_programs_get_a_finding_a_line_or_what_a_template_takes_from_each():
    lines = [json.loads(line) for line in run("-o", "json").stdout.splitlines()]
    assert [one["id"] for one in lines] == ["f1", "f2", "f3"]
    assert lines[0]["object"]["uid"] == "u1"
    shown = run("-o", "jsonpath={.id}: {.actors[*].name}").stdout.splitlines()
    assert shown[1] == "f2: deployment-controller"
    assert run("-o", "yaml").stdout.count("---\n") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "No open findings.\n"),
        (("-n", "nope"), "No open findings in namespace nope.\n"),
        (("--state", "all", "-A"), "No findings.\n"),
        (("deploy/x",), "No open findings that match the other flags.\n"),
    ],
)
def test_an_empty_result_says_so(words, message):
    result = run(*words, found=())
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", message)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-n", "x", "-A"), "give either -n or -A"),
        (("--since", "soon"), "is not a time"),
        (("deploy/",), "is not KIND/NAME"),
        (("-o", "xml"), "is not one of 'table', 'wide', 'json', 'yaml', 'name', 'jsonpath'"),
        (("-o", "jsonpath={range .x}"), "jsonpath: 'range .x' at character 2: it takes .field"),
        (("-o", "jsonpath"), "jsonpath needs a template"),
    ],
)
def test_a_wrong_flag_is_told_in_one_line(words, told):
    result = run(*words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_server_that_is_none_is_told_in_one_line():
    result = CliRunner().invoke(main, ["findings", "--server", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert "http://127.0.0.1:9: no answer from /api/findings" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def view(uid: str, kind: str = "Deployment", version: str = "apps/v1", name: str = "web"):
    metadata = {"name": name, "namespace": "shop", "uid": uid}
    return assess({"apiVersion": version, "kind": kind, "metadata": metadata}, at=0.0).view


def test_who_causes_a_consequence_is_named_in_its_place():
    known = Culprits([finding("f1", object=PODS), finding("f2", caused_by="f1")])
    (found,) = known.of(view("u1"))
    assert (found.finding, found.actors) == ("f1", (OLD,))
    assert str(found).endswith("genguard explain finding/f1")


def test_only_findings_about_the_object_that_are_not_resolved_count():
    nameless = FoundObject("", "v1", "pods", "shop", "web-2", "")
    known = Culprits(
        [finding("f1"), finding("f2", state="resolved"), finding("f3", object=nameless)]
    )
    assert [one.finding for one in known.of(view("u1"))] == ["f1"]
    assert known.of(view("u9")) == ()
    pod = view("u9", "Pod", "v1", "web-2")
    assert [one.finding for one in known.of(pod)] == ["f3"]
