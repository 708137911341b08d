"""A finding shows what ends its loop: only steps that apply, with commands that a shell takes.

Each step is tried on the last writes: what it would have ended, and what it would have cost.
"""

import re
import shlex
import subprocess
from itertools import product
from types import SimpleNamespace

import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from genguard.admission.matching import read_configurations
from genguard.detection.damage import Damage, LostValue
from genguard.detection.detection import Detection
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity, Trial
from genguard.detection.fix import (
    Installation,
    condition,
    leaves_out,
    load_advice,
    repair_command,
    with_fix,
)
from genguard.detection.questions import FINDINGS
from genguard.objects.selectors import Truth
from tests.cases_loader import load, table
from tests.controlplane.build import binary
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, reviewed, update
from tests.unit.detection.evaluating import CONDITIONS

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "u")
DETECTORS = sorted(FINDINGS)
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
        paths=tuple(dict.fromkeys(map(where.owned, values.get("paths", ())))),
        actors=tuple(map(actor, values["actors"])),
        count=9,
        first_seen="2026-11-23T08:00:00Z",
        last_seen="2026-11-23T08:01:00Z",
        message="m",
        evidence=tuple(values.get("evidence", ())),
        repair=values.get("repair", ""),
        caused_by=values.get("causedBy", ""),
    )


def steps_of(case):
    known = read_configurations(
        {
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": one["configuration"]},
            "webhooks": [{"name": one["webhook"], "rules": one["rules"]}],
        }
        for one in case.get("registered", ())
    )
    installation = Installation(
        case.get("enforcing"), case.get("enforce", ""), case.get("connected")
    )
    return with_fix(finding(case["finding"]), known, installation).fix


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
                ("kubectl", "get"), ("kubectl", "label"),
            }  # fmt: skip
        if step.stanza:
            assert set(yaml.safe_load(step.stanza)) <= {
                "spec", "metadata", "matchConditions", "reinvocationPolicy",
            }  # fmt: skip


def test_each_plan_is_of_a_detector_and_has_a_case():
    cases = load("fix", *KEYS)
    planned = set(load_advice().plans) - {"other"}
    assert planned <= {one["finding"]["detector"] for one in cases}
    assert planned <= {*FINDINGS}


def test_no_finding_is_left_without_a_step_or_breaks():
    for detector, sort, confidence in product(
        [*DETECTORS, "a-new-one"], ["user", "webhook", "policy", "something-new"], Confidence
    ):
        actors = [f"{sort} conf/hook {confidence.value}"]
        assert with_fix(finding({"detector": detector, "actors": actors})).fix


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
        steps = with_fix(finding(values), (), Installation(enforcing, "genguard install")).fix
        text = " ".join(f"{one.title} {one.text} {one.command} {one.stanza}" for one in steps)
        case = detector, sort, confidence, enforcing, text
        assert not PLACEHOLDERS & set(re.findall("[A-Z]+", text)), case
        assert ("by day" in text) <= enforcing, case
        assert ("--audit-only" in text) <= (not enforcing), case
        lasting = [one.lasting for one in steps if not one.title.startswith("Or let genguard")]
        assert lasting == sorted(lasting), case
        if confidence is Confidence.POSSIBLE and detector != "generation-mismatch":
            first_words = ("genguard trace deploy", "genguard blame deploy")
            command = next(one.command for one in steps if one.command)
            assert command.startswith(first_words), case
            assert "kubectl patch" not in text, case


def last_writes(written):
    """What History keeps of these writes; objects of several names are several."""
    detection = Detection()
    for number, one in enumerate(written):
        left = one.get("left", one["asked"])
        more = {key: one[key] for key in ("user", "name") if key in one}
        if one["part"] == "status":
            more["subresource"] = "status"
        for phase, shown in ((INTENT, one["asked"]), (MUTATE, left), (OUTCOME, left)):
            before = {one["part"]: one["before"]}
            review = update({one["part"]: shown}, before, str(number + 1), **more)
            for key in ("object", "oldObject"):
                review["request"][key]["metadata"]["uid"] = f"uid of {one.get('name')}"
            feed(detection, phase, review, float(number))
    detection.finish(float(len(written)))
    return detection.history.snapshot()


def about(kept, values):
    """A finding about the object that was written first."""
    key = next(iter(kept.values())).writes[0].object
    return structs.replace(finding(values), object=FoundObject(**structs.asdict(key)))


@table("findings/trials.yaml", "writes", "finding", "title", "trial")
def test_a_step_is_tried_on_the_last_writes(case):
    kept = last_writes(case["writes"])
    tried = {
        one.title: one.trial for one in with_fix(about(kept, case["finding"]), histories=kept).fix
    }
    expected = Trial(**{**case["trial"], "also": tuple(case["trial"].get("also", ()))})
    (title,) = [one for one in tried if one.startswith(case["title"])][:1] or [""]
    assert tried.get(title) == expected, (case.because, list(tried))


def test_a_step_that_would_not_have_ended_all_comes_last():
    part, numbers = "status", [{"observedGeneration": one} for one in (1, 2, 3)]
    kept = last_writes(
        [
            {"part": part, "before": numbers[0], "asked": numbers[1], "left": {}},
            {"part": part, "before": numbers[1], "asked": numbers[2], "left": numbers[1]},
        ]
    )
    values = {
        "detector": "observed-generation-cleared",
        "subresource": "status",
        "actors": ["webhook mmm/old.example.org certain"],
        "paths": ["/status/observedGeneration"],
    }
    installed = Installation(False, "genguard install")
    steps = with_fix(about(kept, values), (), installed, histories=kept).fix
    assert [one.trial.text.split(":")[0] for one in steps] == ["Ends it", "Not tried", "Ends it"]
    assert (steps[-1].title, steps[-1].trial) == ("Or let genguard restore the value", Trial(1, 2))


@given(
    st.sampled_from(["status", "object", "kind", "operation"]),
    st.sampled_from(["", "status", "scale"]),
    st.sampled_from(["thing", "other"]),
    st.sampled_from(["CREATE", "UPDATE"]),
)
def test_the_condition_of_a_step_leaves_out_what_the_trial_says(scope, subresource, name, taken):
    where = FoundObject("apps", "v1", "deployments", "default", "thing", "")
    found = structs.replace(finding({"detector": "spec-fight", "actors": []}), object=where)
    expression = condition(found, scope, taken)["expression"]
    request = reviewed(update({}, {}, subresource=subresource, name=name), MUTATE).request
    is_called = CONDITIONS.evaluate([expression], request)[expression] is Truth.TRUE
    of = SimpleNamespace(name=name)
    write = SimpleNamespace(subresource=subresource, object=of, operation="UPDATE")
    assert leaves_out(scope, where, taken, write) is not is_called


@table("findings/stripped.yaml", "paths", "spec", "called")
def test_a_condition_leaves_out_objects_that_set_what_is_taken_from_them(case):
    found = finding({"detector": "field-stripped", "actors": [], "paths": case["paths"]})
    expression = condition(found, "setting")["expression"]
    request = reviewed(update({"spec": case["spec"]}, {}), MUTATE).request
    called = CONDITIONS.evaluate([expression], request)[expression]
    assert (called is Truth.TRUE) is case["called"], (case.because, expression)


@table("findings/built.yaml", "paths", "object", "manifest", "built")
def test_flux_builds_what_a_step_adds_and_the_manifest_is_without_the_field(case, tmp_path):
    actors = ["user flux certain kustomize-controller", "user b certain"]
    where = {"namespace": "shop", "name": "web", "uid": "u"} | case["object"]
    of = {"detector": "spec-fight", "actors": actors, "paths": case["paths"], "object": where}
    patches = yaml.safe_load(with_fix(finding(of)).fix[0].stanza)["spec"]["patches"]
    manifest = case["manifest"] | {"metadata": {"name": "web", "namespace": "shop"}}
    overlay = yaml.safe_dump({"resources": ["web.yaml"], "patches": patches})
    (tmp_path / "kustomization.yaml").write_text(overlay)
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(manifest))
    found = subprocess.check_output([binary("kubectl"), "kustomize", tmp_path])
    built = {key: one for key, one in (manifest | case["built"]).items() if one is not None}
    assert yaml.safe_load(found) == built, case.because


@table("findings/repair_commands.yaml", "object", "subresource", "lost", "writer", "command")
def test_a_command_puts_back_what_was_lost_and_nothing_else(case):
    lost = tuple(LostValue(*one) for one in case.get("lost", [[None, 3]]))
    where = structs.replace(WEB, **case.get("object", {}))
    damage = Damage(lost, case.get("writer", "deployment-controller"))
    found = repair_command(where, case.get("subresource", "status"), damage)
    assert found == case["command"], case.because


names = st.text(min_size=1, max_size=20)


@given(names, names, names, names, st.sampled_from([None, "Ready"]))
def test_no_name_becomes_another_word_of_the_command(group, resource, namespace, name, condition):
    where = FoundObject(group, "v1", resource, namespace, name, "")
    command = repair_command(where, "status", Damage((LostValue(condition, 3),), "a-controller"))
    if command:
        words = shlex.split(command)
        assert words[2:6] == [f"{resource}.{group}", name, "-n", namespace]
        assert command.isprintable()
        assert words.count("|") == (0 if condition is None else 2)
