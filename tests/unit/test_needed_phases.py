"""Which phases writes need, and the rules of the mutating registrations after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.review import Phase
from genguard.detection.matching import Writes, may_match
from genguard.detection.suspects import Suspects, read_configurations
from genguard.needed_phases import needs_of, rules_of
from tests.unit.manifest_files import registrations

WATCHED = registrations()["outcome"]["webhooks"][0]["rules"]
STATUS = Writes("apps", "deployments/status", "UPDATE")
PROBED = Writes("", "podtemplates", "CREATE")
INTENT, MUTATE, OUTCOME = Phase


def nobody(_):
    return ()


def hook(*resources: str, operations=("*",), group="*"):
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": [*resources],
        "operations": [*operations],
    }
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mmm"},
        "webhooks": [{"name": "other.example.org", "rules": [rule]}],
    }


def phases(writes, *others: dict, enforcing=False, refused=lambda _: False):
    suspects = Suspects(read_configurations(others))
    found = needs_of(WATCHED, suspects.may_change, enforcing=enforcing, refused=refused)
    return next(one.phases for one in found if one.writes == writes)


@pytest.mark.parametrize(
    ("others", "enforcing", "refused", "wanted", "because"),
    [
        ((), False, False, (OUTCOME,), "nobody else changes it, and nothing is repaired"),
        ((), True, False, (MUTATE, OUTCOME), "it is repaired at /mutate"),
        ((), False, True, (MUTATE, OUTCOME), "what is refused never comes to /outcome"),
        ((hook("deployments/status"),), False, False, (*Phase,), "another webhook is called"),
        ((hook("*/status"),), True, False, (*Phase,), "a wildcard calls it too"),
        ((hook("*/*"),), False, False, (*Phase,), "so does this one"),
        ((hook("deployments/*"),), False, False, (*Phase,), "and every subresource of it"),
        ((hook("deployments"),), False, False, (OUTCOME,), "an object is not its status"),
        ((hook("*"),), False, False, (OUTCOME,), "and all objects are no status"),
        ((hook("*/status", operations=["CREATE"]),), False, False, (OUTCOME,), "it is an UPDATE"),
        ((hook("deployments/status", group="batch"),), False, False, (OUTCOME,), "another group"),
    ],
)  # fmt: skip
def test_a_write_needs_the_phases_that_can_show_or_repair_something(
    others, enforcing, refused, wanted, because
):
    found = phases(STATUS, *others, enforcing=enforcing, refused=lambda _: refused)
    assert found == wanted, because


def test_what_install_and_doctor_probe_by_has_every_phase():
    assert phases(PROBED) == (*Phase,)


def test_nobody_s_registrations_are_narrowed_to_the_probe_alone():
    needs = needs_of(WATCHED, nobody, enforcing=False)
    for phase in (INTENT, MUTATE):
        (rule,) = rules_of(phase, WATCHED, [], needs)
        assert (rule["resources"], rule["operations"]) == (["podtemplates"], ["CREATE"])
        assert rule["apiVersions"] == ["v1"]


def test_rules_for_what_is_not_watched_stay_as_they_are():
    mine = {"apiGroups": ["example.org"], "resources": ["widgets"], "operations": ["UPDATE"]}
    needs = needs_of(WATCHED, nobody, enforcing=False)
    assert rules_of(INTENT, WATCHED, [mine, *WATCHED], needs)[1:] == [mine]


ALL = [one.writes for one in needs_of(WATCHED, nobody, enforcing=False)]


@given(st.frozensets(st.sampled_from(ALL)), st.booleans())
def test_the_rules_call_for_what_needs_the_phase_and_for_nothing_else(changed, enforcing):
    needs = needs_of(WATCHED, lambda one: ("x",) * (one in changed), enforcing=enforcing)
    for phase in (INTENT, MUTATE):
        rules = rules_of(phase, WATCHED, WATCHED, needs)
        assert {one.writes for one in needs if may_match(rules, one.writes)} == {
            one.writes for one in needs if phase in one.phases
        }
