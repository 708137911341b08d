"""A finding shows what ends its loop: only steps that apply, with commands that a shell takes."""

import re
import shlex

import pytest
import yaml

from genguard.detection.detectors import ALL
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.fix import PLANS, Installation, fix, with_fix
from genguard.detection.suspects import Registered
from tests.cases_loader import load, table

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "u")
KEYS = ("finding", "registered", "enforcing", "enforce", "connected", "steps")


def actor(text):
    """`TYPE NAME CONFIDENCE [FIELD-MANAGER]`."""
    sort, name, confidence, *manager = text.split()
    return Actor(sort, name, manager[0] if manager else "", Confidence(confidence))


def finding(values):
    where = FoundObject(**values["object"]) if "object" in values else WEB
    return Finding(
        id="f1",
        detector=values["detector"],
        severity=Severity.WARNING,
        state=values.get("state", "open"),
        object=where,
        subresource=values.get("subresource", ""),
        paths=tuple(values.get("paths", ())),
        actors=tuple(map(actor, values["actors"])),
        count=9,
        first_seen="2026-11-23T08:00:00Z",
        last_seen="2026-11-23T08:01:00Z",
        message="m",
        evidence=tuple(values.get("evidence", ())),
        repair=values.get("repair", ""),
        caused_by=values.get("causedBy", ""),
    )


def registered(values):
    return Registered(
        configuration=values["configuration"],
        webhook=values["webhook"],
        rules=tuple(values["rules"]),
        namespace_selector=None,
        object_selector=None,
        any_version=True,
        conditions=(),
        phase="",
    )


def steps_of(case):
    known = [registered(one) for one in case.get("registered", ())]
    installation = Installation(
        case.get("enforcing"), case.get("enforce", ""), case.get("connected")
    )
    return fix(finding(case["finding"]), known, installation)


@table("fix", *KEYS)
def test_the_steps_are_those_that_apply(case):
    found = steps_of(case)
    assert [one.title for one in found] == [one["title"] for one in case["steps"]], case.because
    for step, expected in zip(found, case["steps"], strict=True):
        assert expected.get("text", "") in step.text, case.because
        for part in ("command", "stanza"):
            if part in expected:
                assert getattr(step, part) == expected[part], case.because


@table("fix", *KEYS)
def test_commands_are_lines_of_a_shell_and_stanzas_are_yaml(case):
    for step in steps_of(case):
        assert step.text.endswith((".", "again."))
        if step.command:
            assert "\n" not in step.command
            program, verb, *_ = shlex.split(step.command)
            assert (program, verb) in {
                ("kubectl", "patch"), ("kubectl", "apply"),
                ("genguard", "trace"), ("genguard", "explain"),
                ("genguard", "blame"), ("genguard", "install"), ("kubectl", "-n"),
            }  # fmt: skip
        if step.stanza:
            assert set(yaml.safe_load(step.stanza)) <= {
                "spec", "metadata", "matchConditions", "reinvocationPolicy",
            }  # fmt: skip


@pytest.mark.parametrize("detector", PLANS)
def test_each_plan_has_a_case(detector):
    assert any(one["finding"]["detector"] == detector for one in load("fix", *KEYS))


@pytest.mark.parametrize("detector", sorted({*PLANS, *(one.name for one in ALL), "a-new-one"}))
@pytest.mark.parametrize("sort", ["user", "webhook", "policy", "something-new"])
@pytest.mark.parametrize("confidence", list(Confidence))
def test_no_finding_is_left_without_a_step_or_breaks(detector, sort, confidence):
    values = {"detector": detector, "actors": [f"{sort} conf/hook {confidence.value}"]}
    assert fix(finding(values))


@pytest.mark.parametrize("detector", sorted({*PLANS, *(one.name for one in ALL)}))
@pytest.mark.parametrize("sort", ["user", "webhook", "policy"])
@pytest.mark.parametrize("confidence", list(Confidence))
@pytest.mark.parametrize("enforcing", [True, False])
def test_steps_fit_the_mode_name_what_they_are_about_and_stop_before_they_mend(
    detector, sort, confidence, enforcing
):
    values = {
        "detector": detector,
        "subresource": "status",
        "paths": ["/status/observedGeneration"],
        "actors": [f"{sort} conf/hook {confidence.value}"],
    }
    steps = fix(finding(values), (), Installation(enforcing, "genguard install"))
    told = " ".join(f"{one.title} {one.text} {one.command} {one.stanza}" for one in steps)
    assert not {"KIND", "NAMESPACE", "NAME", "RESOURCE", "IMAGE"} & set(re.findall("[A-Z]+", told))
    assert ("by day" in told) <= enforcing
    assert ("--audit-only" in told) <= (not enforcing)
    lasting = [one.lasting for one in steps]
    assert lasting == sorted(lasting)
    if confidence is Confidence.POSSIBLE and detector != "generation-mismatch":
        assert steps[-1].command.startswith(("genguard trace deploy", "genguard blame deploy"))
        assert "kubectl patch" not in told


def test_a_finding_without_actors_says_how_to_find_them():
    (step,) = fix(finding({"detector": "spec-fight", "actors": []}))
    assert step.command == "genguard blame deployments.apps/web -n shop"


def test_steps_are_part_of_the_finding_on_request_alone():
    bare = finding({"detector": "spec-fight", "actors": ["user a certain"]})
    assert bare.fix == ()
    assert with_fix(bare).fix == fix(bare)
