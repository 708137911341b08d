"""`genguard findings` beside an ops port that answers as told, and what names culprits."""

import json
import shlex
import time
from datetime import UTC, datetime, timedelta

import msgspec
from click.testing import CliRunner

from genguard.blame.stuck import Culprits
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.status.assessment import assess
from tests.cases_loader import table
from tests.unit.cli.samples import serving
from webhook.cli import main

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


@table("cli/filters.yaml", "words", "ids")
def test_filters_choose_by_least_severity_time_and_object(case):
    assert ids(run("-o", "name", *shlex.split(case["words"]))) == case["ids"], case.because


ACCOUNT = Actor(
    "user", "system:serviceaccount:kube-system:horizontal-pod-autoscaler", "", Confidence.POSSIBLE
)
OTHER = Actor("user", "system:serviceaccount:argocd:argocd", "", Confidence.POSSIBLE)
WIDGETS = FoundObject("example.org", "v1", "widgets", "a-long-namespace", "a-long-name-1", "u3")


def long_ones() -> tuple[Finding, ...]:
    first = finding("0123456789abcdef", actors=(ACCOUNT, OTHER))
    return first, finding("0123456789abcdf0", caused_by=first.id, object=WIDGETS)


def test_a_pipe_gets_one_line_a_finding_and_the_whole_names(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(found=long_ones()).stdout.splitlines()
    assert len(shown) == 3
    assert shown[1].endswith(f"{ACCOUNT.name} (possible), {OTHER.name} (possible)")


def test_programs_get_a_finding_a_line_or_what_a_template_takes_from_each():
    lines = [json.loads(line) for line in run("-o", "json").stdout.splitlines()]
    assert [one["id"] for one in lines] == ["f1", "f2", "f3"]
    assert lines[0]["object"]["uid"] == "u1"
    shown = run("-o", "jsonpath={.id}: {.actors[*].name}").stdout.splitlines()
    assert shown[1] == "f2: deployment-controller"
    assert run("-o", "yaml").stdout.count("---\n") == 3


def test_columns_are_those_that_are_asked_for_with_what_kubectl_prints_for_nothing():
    spec = "custom-columns=ID:.id,CAUSE:.causedBy,PATHS:.paths[*],WHO:.actors[*].name,N:.count"
    assert [line.split() for line in run("-o", spec).stdout.splitlines()] == [
        ["ID", "CAUSE", "PATHS", "WHO", "N"],
        ["f1", "<none>", "/status/observedGeneration", "mmm-old/status.example.org", "50"],
        ["f2", "f1", "/status/observedGeneration", "deployment-controller", "50"],
        ["f3", "<none>", "/status/observedGeneration", "mmm-old/status.example.org", "50"],
    ]
    assert run("-o", spec, found=()).stdout == ""


def test_to_sort_by_a_field_that_no_object_has_is_an_error_as_for_kubectl():
    result = run("--sort-by=.nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: --sort-by: no object has the field\n"
    assert run("--sort-by=.nothing", found=()).exit_code == 0


def test_an_empty_result_says_so():
    said = {
        "": "No open findings.\n",
        "-n nope": "No open findings in namespace nope.\n",
        "--state all -A": "No findings.\n",
        "deploy/x": "No open findings that match the other flags.\n",
    }
    for words, message in said.items():
        result = run(*words.split(), found=())
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", message)


def test_what_the_server_cannot_see_is_told_in_place_of_an_empty_result():
    page = b'{"findings": [], "note": "namespace nope is not there"}'
    with serving({"/api/findings": page}) as server:
        for words in ("-n nope", "widgets -n nope"):
            told = CliRunner().invoke(main, ["findings", "--server", server, *words.split()])
            assert (told.exit_code, told.stderr) == (0, "namespace nope is not there\n")


def view(uid: str, kind: str = "Deployment", version: str = "apps/v1", name: str = "web"):
    metadata = {"name": name, "namespace": "shop", "uid": uid}
    return assess({"apiVersion": version, "kind": kind, "metadata": metadata}, at=0.0).view


def known_of(findings):
    return Culprits(findings, (), time.time)


def test_who_causes_a_consequence_is_named_in_its_place():
    known = known_of([finding("f1", object=PODS), finding("f2", caused_by="f1")])
    (found,) = known.of(view("u1"))
    assert (found.finding, found.actors) == ("f1", (OLD,))
    assert str(found).endswith("genguard explain finding/f1")


def test_what_is_over_on_an_object_is_said_though_its_cause_goes_on_elsewhere():
    done = {
        "repaired": True,
        "resolves_after": 60.0,
        "first_seen": ago(seconds=40),
        "last_seen": ago(seconds=30),
    }
    now = {"repaired": False, "last_seen": ago(seconds=0)}
    known = known_of([finding("f1", object=PODS, **now), finding("f2", part_of="f1", **done)])
    (found,) = known.of(view("u1"))
    assert (found.finding, found.over) == ("f1", True)
    assert str(found).startswith("over: mmm-old/status.example.org (certain): ")
    (goes_on,) = known_of([finding("f2", **now)]).of(view("u1"))
    assert not goes_on.over
    assert str(goes_on).startswith("mmm-old/")


def test_only_findings_about_the_object_that_are_not_resolved_count():
    nameless = FoundObject("", "v1", "pods", "shop", "web-2", "")
    known = known_of(
        [finding("f1"), finding("f2", state="resolved"), finding("f3", object=nameless)]
    )
    assert [one.finding for one in known.of(view("u1"))] == ["f1"]
    assert known.of(view("u9")) == ()
    pod = view("u9", "Pod", "v1", "web-2")
    assert [one.finding for one in known.of(pod)] == ["f3"]


def test_what_genguard_puts_back_at_each_write_is_repaired():
    fresh = {"first_seen": ago(seconds=1), "last_seen": ago(seconds=0)}
    found = (finding("f1", restored=True, **fresh), finding("f2", **fresh))
    _, *rows = run(found=found).stdout.splitlines()
    assert [row.split()[2] for row in rows] == ["repaired", "open"]
