"""Suspects that were created or changed shortly before a loop began."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from genguard.detection.evidence import UNKNOWN_AGE, YOUNG_SECONDS, Age, age_of, share
from genguard.detection.finding import Confidence
from genguard.detection.ledger import Ledger
from genguard.detection.matching import read_policies
from genguard.detection.questions.question import Blame, Signal
from genguard.detection.suspects import Suspects, read_configurations
from genguard.detection.write import Acted, Called, Requester
from tests.unit.detection.builders import OUTCOME, joined, spec, update
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_suspects import HERE, OWN, hook

BEGAN = 1_800_000_000.0
OLD = BEGAN - 10_000_000
PAIR = ("aaa/h.example.org", "bbb/h.example.org")
(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def born(document, created, *managed: Any):
    """The document with its times; `managed` are pairs of a time and the owned fields."""
    entries = [{"manager": "m", "time": at(one), "fieldsV1": fields} for one, fields in managed]
    times = {"creationTimestamp": at(created), "managedFields": entries}
    return {**document, "metadata": {**document["metadata"], **times}}


RULES = {"f:webhooks": {'k:{"name":"h"}': {".": {}, "f:name": {}, "f:rules": {}}}}
BUNDLE = {
    "f:webhooks": {'k:{"name":"h"}': {".": {}, "f:name": {}, "f:clientConfig": {"f:caBundle": {}}}}
}
LABELS = {"f:metadata": {"f:labels": {"f:a": {}}}}
WHOLE = {"f:webhooks": {}}


@pytest.mark.parametrize(
    ("managed", "changed", "because"),
    [
        ([], 0.0, "nobody manages it"),
        ([(BEGAN, RULES)], BEGAN, "its rules are what it does"),
        ([(OLD, RULES), (BEGAN, BUNDLE)], OLD, "a new certificate changes nothing"),
        ([(OLD, RULES), (BEGAN, LABELS)], OLD, "nor does a label"),
        ([(BEGAN, WHOLE)], BEGAN, "its webhooks are owned as one field"),
        ([(BEGAN, RULES), (OLD, RULES)], BEGAN, "the last change counts"),
        ([(BEGAN, "x"), (OLD, {"f:webhooks": 1})], 0.0, "no manager looks so"),
    ],
)
def test_a_change_is_a_change_of_what_a_webhook_does(managed, changed, because):
    found = age_of(born(hook("mmm"), OLD, *managed), "webhooks")
    assert found == Age(OLD, changed), because


@pytest.mark.parametrize(
    ("age", "before"),
    [
        (UNKNOWN_AGE, None),
        (Age(OLD, OLD), None),
        (Age(BEGAN - 40, 0), (40, "created")),
        (Age(BEGAN - 40, BEGAN - 40), (40, "created")),
        (Age(OLD, BEGAN - 3), (3, "changed")),
        (Age(BEGAN - 40, BEGAN - 3), (3, "changed")),
        (Age(BEGAN - 40, BEGAN + 3), (40, "created")),
        (Age(BEGAN, 0), (0, "created")),
        (Age(BEGAN + 1, BEGAN + 1), None),
        (Age(BEGAN - YOUNG_SECONDS, 0), (YOUNG_SECONDS, "created")),
        (Age(BEGAN - YOUNG_SECONDS - 1, 0), None),
    ],
)
def test_what_happened_last_before_a_loop_began_counts_if_it_was_not_long_ago(age, before):
    assert age.before(BEGAN) == before


@pytest.mark.parametrize(
    ("of_policy", "of_bindings", "age", "because"),
    [
        (OLD, [BEGAN], Age(BEGAN, BEGAN), "it acts since it is bound"),
        (BEGAN, [OLD], Age(BEGAN, BEGAN), "or since it is there, once it was bound"),
        (OLD, [OLD, BEGAN], Age(OLD, BEGAN), "bound once more it acts on more"),
    ],
)
def test_a_policy_is_as_old_as_it_is_in_force(of_policy, of_bindings, age, because):
    documents = [born(policy(), of_policy, (of_policy, {"f:spec": {"f:mutations": {}}}))]
    documents += [born(binding(), one) for one in of_bindings]
    (found,) = read_policies(documents)
    assert found.age == age, because


def suspects(*configurations: Any, policies=()):
    return Suspects(read_configurations([*OWN, *configurations]), read_policies(policies))


def test_of_equal_suspects_the_young_one_comes_first_and_is_no_more_than_possible():
    both = suspects(hook("aaa"), born(hook("bbb"), BEGAN - 40))
    young = both.young(PAIR, BEGAN)
    assert young == (PAIR[1],)
    found = list(both.accused(PAIR, share([PAIR]), HERE, young))
    assert found == [(PAIR[1], Confidence.POSSIBLE), (PAIR[0], Confidence.POSSIBLE)]


def test_youth_never_outweighs_evidence():
    both = suspects(hook("aaa"), born(hook("bbb"), BEGAN - 40))
    for _ in range(3):
        both.record_unchanged([PAIR[1]], HERE)
    (first, _), _ = both.accused(PAIR, share([PAIR]), HERE, both.young(PAIR, BEGAN))
    assert first == PAIR[0]


def told(found: Suspects, began=BEGAN, **write):
    """The finding of one write on which both webhooks were called."""
    ledger = Ledger(found)
    sign = Signal(Blame.OTHERS, ("/spec/replicas",), "lost")
    one = replace(WRITE, time=began, **{"called": Called(PAIR, ()), **write})
    ledger.add("status-clobbered", sign, one)
    (finding,) = ledger.findings()
    return finding


def notes(finding):
    return [(one["actor"], one["note"]) for one in finding.evidence if "note" in one]


def test_the_evidence_says_who_is_young_and_the_young_one_is_named_first():
    finding = told(suspects(hook("aaa"), born(hook("bbb"), BEGAN - 40)))
    assert [one.name for one in finding.actors] == [PAIR[1], PAIR[0]]
    assert notes(finding) == [(PAIR[1], "created 40 s before the first sign")]


def test_of_equal_policies_the_young_one_comes_first():
    young = [policy("zzz"), binding("zzz")]
    documents = [policy("aaa"), binding("aaa"), *(born(one, BEGAN - 7) for one in young)]
    ledger = Ledger(suspects(policies=documents))
    acted = (Acted("aaa", is_sure=False), Acted("zzz", is_sure=False))
    asker = Requester("gitops", "")
    sign = Signal(Blame.REQUESTER, ("/spec/replicas",), "turned", requesters=(asker,))
    ledger.add("spec-fight", sign, replace(WRITE, time=BEGAN, requester=asker, policies=acted))
    (finding,) = ledger.findings()
    assert [one.name for one in finding.actors] == ["gitops", "zzz", "aaa"]
    assert notes(finding) == [("zzz", "created 7 s before the first sign")]


def test_of_many_young_actors_three_are_told():
    hooks = [born(hook(f"m{number}"), BEGAN - 1) for number in range(9)]
    names = tuple(f"m{number}/h.example.org" for number in range(9))
    finding = told(suspects(*hooks), called=Called(names, ()))
    assert len(notes(finding)) == 3
