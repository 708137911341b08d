"""Which phases writes need, and the rules of the mutating registrations after it."""

from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.matching import Writes, may_match, read_configurations
from genguard.admission.review import Phase
from genguard.detection.mutators import Mutators
from genguard.needed_phases import needs_of, rules_of
from tests.cases_loader import Case, table
from tests.unit.detection.policies import rule
from tests.unit.detection.test_mutators import hook
from tests.unit.manifest_files import registrations

WATCHED = registrations()["outcome"]["webhooks"][0]["rules"]
STATUS = Writes("apps", "deployments/status", "UPDATE")
PROBED = Writes("", "podtemplates", "CREATE")
INTENT, MUTATE, OUTCOME = Phase


def nobody(_):
    return ()


@table(
    "attribution/needed_phases.yaml",
    "other",
    "enforcing",
    "always",
    "refused",
    "phases",
    "repaired",
)
def test_a_write_needs_the_phases_that_can_show_or_repair_something(case: Case) -> None:
    others = read_configurations(
        [hook("mmm", rules=[rule() | case.get("other", {"resources": []})])]
    )
    refused, enforcing = case.get("refused", False), case.get("enforcing", False)
    may_change = Mutators(others).may_change
    how = {"enforcing": enforcing, "always": case.get("always", False)}
    needs = needs_of(WATCHED, may_change, **how, refused=lambda _: refused)
    (found,) = [one for one in needs if one.writes == STATUS]
    assert [one.value for one in found.phases] == case["phases"], case.because
    assert found.is_repaired is case.get("repaired", False), case.because


def test_what_install_and_doctor_probe_by_has_every_phase():
    needs = needs_of(WATCHED, nobody, enforcing=False)
    assert [one.phases for one in needs if one.writes == PROBED] == [(*Phase,)]


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
