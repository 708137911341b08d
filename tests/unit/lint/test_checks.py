"""Every check: cases in which it fires, and cases in which it does not."""

import base64
import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from certs import issue_authority
from genguard.linting.checks import CHECKS
from genguard.linting.lint import lint
from tests.cases_loader import load, table

AT = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = ("check", "fires", "level", "field", "hook", "configuration", "others", "live", "ca_days")
SOUND = {
    "name": "sound.example.org",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://sound.example.org/admit"},
    "failurePolicy": "Ignore",
    "sideEffects": "None",
    "timeoutSeconds": 2,
    "rules": [
        {
            "apiGroups": ["example.org"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["widgets"],
        }
    ],
}


def configuration(name: str, hook: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A configuration of one webhook: SOUND but for what is given; null takes a field away."""
    body = copy.deepcopy(SOUND)
    for key, value in hook.items():
        if key == "rule":
            body["rules"][0] |= value  # type: ignore[index]
        elif value is None:
            del body[key]
        else:
            body[key] = value
    kind = more.pop("kind", "MutatingWebhookConfiguration")
    metadata = {"name": name, **more}
    return {"kind": kind, "metadata": metadata, "webhooks": [body]}


def bundle(*days: int) -> str:
    """CA certificates of which the last second is so many days after AT."""
    life = timedelta(days=365)
    pems = [
        issue_authority(at=AT + timedelta(days=number) - life, lifetime=life).cert_pem
        for number in days
    ]
    return base64.b64encode(b"".join(pems)).decode()


def found(case):
    hook = dict(case.get("hook", {}))
    if "ca_days" in case.values:
        hook["clientConfig"] = {**SOUND["clientConfig"], "caBundle": bundle(*case["ca_days"])}
    documents = [configuration(**{"name": "checked", **case.get("configuration", {})}, hook=hook)]
    for other in case.get("others", ()):
        if "kind" in other and other["kind"] == "Service":
            documents.append(other)
        else:
            given = other.get("configuration", {})
            documents.append(configuration(**given, hook=other.get("hook", {})))
    name = f"{documents[0]['metadata']['name']}/{documents[0]['webhooks'][0].get('name', '')}"
    return [
        one
        for one in lint(documents, at=AT, live=case.get("live", False))
        if one.webhook == name and one.id == case["check"]
    ]


@table("lint", *KEYS)
def test_case(case):
    told = found(case)
    assert bool(told) is case["fires"], case.because
    if told:
        assert {one.severity.value for one in told} == {case["level"]}
        assert told[0].field == case["field"]
        assert told[0].reason


def test_every_check_has_cases_of_both_kinds():
    cases = load("lint", *KEYS)
    assert {case["check"] for case in cases} <= {check.id for check in CHECKS}
    for check in CHECKS:
        if not check.of_definitions:
            kinds = {case["fires"] for case in cases if case["check"] == check.id}
            assert kinds == {True, False}, check.id


def test_a_sound_webhook_is_not_spoken_of():
    assert lint([configuration("sound", {})], at=AT, live=True) == ()


def test_the_worst_comes_first_and_ids_are_distinct():
    hook = {"timeoutSeconds": 20, "sideEffects": "Some"}
    told = lint([configuration("a", hook)], at=AT, live=False)
    assert [one.severity.value for one in told] == ["error", "warning"]
    assert len({check.id for check in CHECKS}) == len(CHECKS)
