"""A finding shows what ends its loop: only steps that apply, with commands that a shell takes."""

import re
import shlex
from itertools import product

import yaml

from genguard.detection.detectors import ALL
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.fix import Installation, fix, load_advice, with_fix
from genguard.detection.suspects import Registered
from tests.cases_loader import load, table

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "u")
DETECTORS = sorted(one.name for one in ALL)
PLACEHOLDERS = {"KIND", "NAMESPACE", "NAME", "RESOURCE", "IMAGE"}
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


def test_each_plan_is_of_a_detector_and_has_a_case():
    cases = load("fix", *KEYS)
    planned = set(load_advice().plans) - {"other"}
    assert planned <= {one["finding"]["detector"] for one in cases}
    assert planned <= {one.name for one in ALL}


def test_no_finding_is_left_without_a_step_or_breaks():
    for detector, sort, confidence in product(
        [*DETECTORS, "a-new-one"], ["user", "webhook", "policy", "something-new"], Confidence
    ):
        actors = [f"{sort} conf/hook {confidence.value}"]
        assert fix(finding({"detector": detector, "actors": actors})), (detector, actors)


def test_steps_fit_the_mode_name_what_they_are_about_and_stop_before_they_mend():
    for detector, sort, confidence, enforcing in product(
        DETECTORS, ["user", "webhook", "policy"], Confidence, [True, False]
    ):
        values = {
            "detector": detector,
            "subresource": "status",
            "paths": ["/status/observedGeneration"],
            "actors": [f"{sort} conf/hook {confidence.value}"],
        }
        steps = fix(finding(values), (), Installation(enforcing, "genguard install"))
        text = " ".join(f"{one.title} {one.text} {one.command} {one.stanza}" for one in steps)
        case = detector, sort, confidence, enforcing, text
        assert not PLACEHOLDERS & set(re.findall("[A-Z]+", text)), case
        assert ("by day" in text) <= enforcing, case
        assert ("--audit-only" in text) <= (not enforcing), case
        lasting = [one.lasting for one in steps]
        assert lasting == sorted(lasting), case
        if confidence is Confidence.POSSIBLE and detector != "generation-mismatch":
            first_words = ("genguard trace deploy", "genguard blame deploy")
            assert steps[-1].command.startswith(first_words), case
            assert "kubectl patch" not in text, case


def test_a_finding_without_actors_says_how_to_find_them():
    (step,) = fix(finding({"detector": "spec-fight", "actors": []}))
    assert step.command == "genguard blame deployments.apps/web -n shop"


def test_steps_are_part_of_the_finding_on_request_alone():
    bare = finding({"detector": "spec-fight", "actors": ["user a certain"]})
    assert bare.fix == ()
    assert with_fix(bare).fix == fix(bare)
