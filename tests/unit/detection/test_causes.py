"""Findings that follow from others: tests/cases/causes.yaml, by all detectors together."""

import msgspec
import pytest

from genguard.detection.causes import beneath_causes, root_causes
from genguard.detection.finding import Confidence, Finding
from genguard.detection.finding_state import Account, FindingState
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy
from genguard.detection.write import ObjectKey, Requester
from tests.cases_loader import Case, load, table
from tests.unit.alerts.findings import finding
from tests.unit.detection.story import Story

CASES = [pytest.param(case, id=case.name) for case in load("causes.yaml", "steps", "finds")]


def played(case: Case) -> Story:
    story = Story(resource="widgets", found={"spec": {"size": 0}})
    for step in case["steps"]:
        story.play(step)
    return story


def told(found: Finding, by_id: dict[str, Finding]) -> str:
    text = f"{found.severity} {found.detector} {found.object.name}"
    if not found.caused_by:
        return text
    cause = by_id[found.caused_by]
    return f"{text} < {cause.detector} {cause.object.name}"


@pytest.mark.parametrize("case", CASES)
def test_a_finding_names_its_cause_and_no_other_does(case: Case):
    found = list(played(case).end())
    by_id = {one.id: one for one in found}
    sure = {one.confidence for each in found if each.caused_by for one in each.actors}
    assert sure <= {Confidence.POSSIBLE}, "who follows another is not to blame"
    assert sorted(told(one, by_id) for one in found) == sorted(case["finds"]), case.because


def test_causes_survive_being_saved_and_restored():
    story = played(load("causes.yaml", "steps", "finds")[0])
    found = tuple(story.end())
    ledger = Ledger(Mutators())
    ledger.restore(story.rows())
    assert {one.id: (one.caused_by, one.severity) for one in ledger.findings()} == {
        one.id: (one.caused_by, one.severity) for one in found
    }


def test_a_row_of_an_older_version_is_read_and_stands_alone():
    story = played(load("causes.yaml", "steps", "finds")[0])
    list(story.end())
    old = []
    for name, content in story.rows():
        fields = msgspec.msgpack.decode(content)
        del fields["owners"]
        old.append((name, msgspec.msgpack.encode(fields)))
    ledger = Ledger(Mutators())
    ledger.restore(old)
    assert [one.caused_by for one in ledger.findings()] == ["", ""]


def state(detector: str, *users: str, last: float = 100.0) -> FindingState:
    where = ObjectKey("example.org", "v1", "widgets", "default", "parent", "uid-of-parent")
    made = FindingState(detector, detector, where, "", 50.0, last, 10, minor=False)
    blamed = tuple(Requester(user, "") for user in users)
    made.accounts = {Account(ChangedBy.REQUESTER, blamed, (), (), is_complete=True): 10}
    made.paths = {"/spec/size": None}
    return made


@table("findings/late.yaml", "observed", "users", "last", "cause")
def test_a_late_observed_generation_follows_from_a_fight_over_the_same_object(case):
    late = state("observed-generation-stalled", *case["users"], last=case.get("last", 100.0))
    late.subresource = "status"
    late.evidence = [{"observedGeneration": one} for one in case["observed"]]
    found = root_causes([state("spec-fight", "gitops"), late])
    assert found.get(late.id) == case.get("cause"), case.because


def test_each_finding_comes_directly_beneath_its_cause():
    names = [("b", "a"), ("f", "b"), ("a", ""), ("c", ""), ("d", "a"), ("e", "unknown")]
    found = [finding(id=one, caused_by=cause) for one, cause in names]
    assert [one.id for one in beneath_causes(found)] == ["a", "b", "f", "d", "c", "e"]
