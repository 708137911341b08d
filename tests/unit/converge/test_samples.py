"""Complete objects as dry runs: what is sent to which server, what is lost, and who took it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from genguard.admission.matching import Match, Registration, read_configurations
from genguard.converge.creation import (
    PODS,
    Site,
    as_known,
    built_with,
    find_strippers,
    lost_fields,
    samples,
    sites,
)
from genguard.detection.finding import Actor, Confidence, Severity
from genguard.detection.since import first_version, load_types
from genguard.generation.strategy import parse_version
from genguard.generation.table import load_rows
from genguard.linting.check import Level, LintFinding
from genguard.linting.hook import read_hooks
from genguard.objects.fields import to_pointer
from genguard.objects.served import Served
from tests.cases_loader import Case, load, table
from webhook.cli.scan import ScanLine, of_check, of_failure, of_stripper, page, row, with_flags

GOLDEN = Path(__file__).with_name("scan.txt")


def served(resource: str) -> Served:
    return Served("", "v1", resource, "", "", (), True, True, True)


@table("converge/strippers.yaml", "tried", "policies", "found")
def test_who_takes_a_field_away_is_who_is_called_where_it_is_lost(case: Case) -> None:
    policies = [
        Registration(name, Match(()), (), bindings=(Match(()),), text=text)
        for name, text in case.get("policies", {}).items()
    ]
    tried = []
    for one in case["tried"]:
        called = frozenset(one["called"])
        site = Site(served(one.get("kind", "pods")), "n", called, called - {*one.get("unsure", ())})
        tried.append((site, dict.fromkeys(one["lost"], (0, 0))))
    found = find_strippers(tried, policies)
    assert {" ".join(who): [at for _, at in fields] for who, fields in found.items()} == case[
        "found"
    ], case.because


@table("converge/lost_fields.yaml", "sent", "made", "lost")
def test_what_does_not_come_back_is_lost(case: Case) -> None:
    found = lost_fields(PODS, case["sent"], case["made"])
    assert {at: [*ages] for at, ages in found.items()} == case["lost"], case.because


@table("converge/built_with.yaml", "lost", "text")
def test_what_is_lost_and_kept_tells_the_age_of_an_api(case: Case) -> None:
    text = case["text"]
    assert built_with([(since, kept) for since, kept in case["lost"]]) == (text and f"; {text}")


def fields_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The pointers of an object and all that is in it, with * for an index."""
    yield to_pointer(path)
    steps = value.items() if isinstance(value, dict) else ()
    steps = [("*", one) for one in value] if isinstance(value, list) else steps
    for step, below in steps:
        yield from fields_of(below, (*path, step))


def kinds() -> Iterator[tuple[dict[str, Any], Served]]:
    rows = {(row.group, row.kind): row for row in load_rows()}
    for sample in samples()["samples"]:
        group, _, version = sample["apiVersion"].rpartition("/")
        row = rows[group, sample["kind"]]
        yield sample, Served(group, version, row.resource, "", row.kind, (), True, True, True)


@pytest.mark.parametrize(("minor", "is_there"), [(27, False), (28, False), (29, True), (36, True)])
def test_a_server_gets_no_field_that_is_newer_or_off_by_default(
    minor: int, *, is_there: bool
) -> None:
    for sample, of in kinds():
        told = set(fields_of(as_known(sample, of, f"v1.{minor}.3")))
        since = (first_version(*of.of, pointer) for pointer in told)
        assert all(parse_version(one) <= (1, minor) for one in since if one)
        if sample["kind"] in ("Pod", "CronJob"):
            assert any(one.endswith("initContainers/*/restartPolicy") for one in told) == is_there


def newer(kind: str) -> Iterator[str]:
    """The newer fields of a kind's spec, of a template once: as those of pods."""

    def walk(of: str, path: str, above: tuple[str, ...]) -> Iterator[str]:
        for name, (since, below) in load_types().get(of, {}).items():
            if since:
                yield f"{path}/{name}"
            elif below not in above and "PodTemplateSpec" not in below:
                yield from walk(below, f"{path}/{name}", (*above, below))

    yield from walk(load_types()["kinds 0"][kind][1], "", ())


def test_the_samples_have_every_newer_field_or_the_table_says_why_not() -> None:
    left_out = [one["part"] for one in load("converge/left_out.yaml", "part")]
    lacking = [
        pointer
        for sample, of in kinds()
        if str(of) in load_types()["kinds 0"] and of.resource != "podtemplates"
        for pointer in newer(str(of))
        if pointer.startswith("/spec") and pointer not in set(fields_of(sample))
    ]
    assert [one for one in lacking if not any(each in one for each in left_out)] == []
    assert [each for each in left_out if not any(each in one for one in lacking)] == []


def test_a_dry_run_goes_where_others_are_called() -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]
    hook = {"name": "a", "rules": rules, "namespaceSelector": {"matchLabels": {"inject": "yes"}}}
    registered = read_configurations(
        [{"kind": "MutatingWebhookConfiguration", "metadata": {"name": "old"}, "webhooks": [hook]}]
    )
    namespaces = {"default": {}, "other": {}, "shop": {"inject": "yes"}}
    found = sites(PODS, {}, namespaces, registered)
    assert [(one.namespace, *one.called) for one in found] == [("default",), ("shop", "old/a")]
    (only,) = sites(PODS, {}, {"default": None}, registered)
    assert (only.called, only.sure) == ({"old/a"}, set())  # its labels are not known


def stuck(name: str, who: tuple[Actor, ...] = ()) -> ScanLine:
    return ScanLine("stuck", Severity.INFO, f"Pod/{name}", who, (), "it waits", "look")


def test_commands_are_for_the_cluster_that_was_scanned_whatever_names_have_in_them() -> None:
    patch = 'kubectl patch configmap a -p "{}"'
    line = replace(stuck("web"), next="genguard blame roles/a{b -n x{}", command=patch)
    shown = with_flags(line, " --context c")
    assert shown.next == "genguard blame roles/a{b -n x --context c"
    assert shown.command == 'kubectl --context c patch configmap a -p "{}"'


def unsafe(name: str) -> LintFinding:
    at = {"field": "webhooks[0]", "message": "it may fail", "reason": ""}
    return LintFinding(id="fail-without-selector", severity=Level.ERROR, webhook=name, **at)


def test_the_page_says_who_what_and_what_to_do_next() -> None:
    sidecar, users = "/spec/initContainers/*/restartPolicy", "/spec/hostUsers"
    old = PODS, "/spec/initContainers/*/securityContext/appArmorProfile"
    busy = (Actor("manager", "busy", "", Confidence.LIKELY),)
    hooks = {"metadata": {"name": "down"}, "webhooks": [{"name": "a"}]}
    down = [*read_hooks([{"kind": "MutatingWebhookConfiguration", **hooks}])]
    lines = [
        of_stripper(("sidecar-injector/pods.acme.io",), {(PODS, sidecar): (28, 0), old: (30, 0)}),
        of_stripper(("good/b", "old/a"), {(PODS, sidecar): (28, 27), (PODS, users): (0, 27)}),
        of_failure(down, "a", "services in shop", "connection refused"),
        *map(of_check, map(unsafe, ("one/a", "two/a", "three/a", "four/a"))),
        *map(stuck, ("web-1", "web-2", "web-3")),
        *(stuck(f"job-{n}", busy) for n in range(4)),
    ]
    assert "\n".join(map(row, page(lines))) + "\n" == GOLDEN.read_text()
