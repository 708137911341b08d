"""Who is named: the requester, a policy that acted before anybody saw the write, or a webhook."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from genguard.admission.matching import ResourceKind, read_configurations, read_policies
from genguard.detection.detection import Detection
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.write import Acted, Requester
from tests.cases_loader import Case, table
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    feed,
    joined,
    reviewed,
    spec,
    status,
    update,
)
from tests.unit.detection.evaluating import CONDITIONS, Evaluated
from tests.unit.detection.policies import PINS_REPLICAS, apply, binding, policy, rule
from tests.unit.detection.test_mutators import hook

PHASES = (INTENT, MUTATE, OUTCOME)
OLD, SENT, LEFT = status(), status(observedGeneration=1, n=1), status(n=1)


def only_if(*expressions: str) -> dict[str, Any]:
    return {"matchConditions": [{"name": "c", "expression": one} for one in expressions]}


def registrations(case: Case) -> Iterator[dict[str, Any]]:
    for name, one in case.get("webhooks", {}).items():
        resources = one.get("resources", ("deployments/status",))
        yield hook(name, resources, one.get("path", "/"), **only_if(*one.get("conditions", ())))
    for name, one in case.get("policies", {}).items():
        covers = rule(*one.get("resources", ()), operations=one.get("operations", ["*"]))
        more = {"paramKind": {"kind": "ConfigMap"}} if one.get("params") else {}
        sets, conditions = apply(one.get("sets", PINS_REPLICAS)), tuple(one.get("conditions", ()))
        yield policy(name, sets, rules=[covers], conditions=conditions, **more)
        bound = one.get("bound", {"paramRef": {"name": "p"}} if more else {})
        if bound is not None:
            yield binding(name, **bound)


def mutators(*documents: dict[str, Any], conditions: Any = CONDITIONS) -> Mutators:
    return Mutators(read_configurations(documents), read_policies(documents), conditions)


def clear(detection: Detection, times: int = 2) -> None:
    for base in range(times):
        for phase, new in zip(PHASES, (SENT, LEFT, SENT), strict=True):
            feed(detection, phase, update(new, OLD, str(base), subresource="status"), 100.0)


def fight(detection: Detection) -> None:
    for turn in range(12):
        user, new, old = (("gitops", 2, 5), ("autoscaler", 5, 2))[turn % 2]
        asked = update(spec(replicas=new), spec(replicas=old), base=str(turn), user=user)
        for phase in PHASES:
            feed(detection, phase, asked, float(turn))


def clear_unseen(detection: Detection) -> None:
    for turn in range(4):
        writes = (
            ("controller", f"{turn}.5", status(observedGeneration=1), status()),
            ("old", str(turn), status(n=turn), status(observedGeneration=1)),
        )
        for user, base, new, old in writes:
            asked = update(new, old, base=base, subresource="status", user=user)
            for phase in (MUTATE, OUTCOME):
                feed(detection, phase, asked, float(turn))


PLAYS = {
    "fight": ("spec-fight", fight),
    "cleared": ("observed-generation-cleared", clear),
    "cleared once": ("observed-generation-cleared", lambda detection: clear(detection, 1)),
    "unseen": ("observed-generation-cleared", clear_unseen),
}


@table("attribution/actors.yaml", "webhooks", "policies", "play", "actors")
def test_who_can_have_done_it_is_named_as_surely_as_that_is_known(case: Case) -> None:
    detector, play = PLAYS[case["play"]]
    detection = Detection(mutators(*registrations(case)))
    play(detection)
    (found,) = [one for one in detection.findings() if one.detector == detector]
    actors = [
        f"{one.type} {one.name.partition('/')[0]} {one.confidence.value}" for one in found.actors
    ]
    assert actors == case["actors"], case.because


class Counting(Evaluated):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = []

    def evaluate(self, expressions, request):
        self.asked += expressions
        return super().evaluate(expressions, request)


def asked(*documents: dict, times=2):
    counting = Counting()
    clear(Detection(mutators(*documents, conditions=counting)), times)
    return counting.asked


def test_conditions_are_evaluated_only_for_webhooks_that_match_and_sort_in_between():
    own = hook("mmm-genguard-intent", path="/intent")
    elsewhere = hook("zzz", ("pods",), **only_if("true"))
    before = hook("aaa", **only_if("true"))
    assert asked(own, before, elsewhere) == []


def test_conditions_of_policies_are_evaluated_only_where_something_was_asked():
    documents = [policy(rules=[rule("*", "*/*")], conditions=("true",)), binding()]
    assert asked(*documents, times=1) == ["true"]
    assert asked(*documents[:1]) == []
    counting, same = Counting(), {"spec": {"replicas": 1}}
    detection = Detection(mutators(*documents, conditions=counting))
    for phase in PHASES:
        feed(detection, phase, update(same, same), 100.0)
    assert counting.asked == []


HERE = ResourceKind("apps", "deployments", "")
IF_TRUE = hook("aaa", ("*",), **only_if("true"))


@pytest.mark.parametrize(
    ("documents", "place", "is_slow", "because"),
    [
        ([IF_TRUE], HERE, True, "a webhook has a condition"),
        ([IF_TRUE], HERE._replace(subresource="status"), False, "nobody changes writes here"),
        ([hook("aaa", ("*",))], HERE, False, "no webhook has a condition"),
        ([policy(conditions=("true",)), binding()], None, True, "a policy has a condition"),
        ([policy(), binding()], HERE, False, "no policy has a condition"),
    ],
)
def test_a_review_is_slow_where_conditions_may_be_evaluated(documents, place, is_slow, because):
    known = mutators(*documents)
    known.changed(place)
    request = reviewed(update({"spec": 1}, {"spec": 2}), INTENT).request
    assert Detection(known).is_slow(request) is is_slow, because


(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))


@pytest.mark.parametrize(
    ("acted", "writes", "told"),
    [(1, 3, "possible"), (1, 2, "possible"), (2, 3, "likely"), (3, 3, "likely")],
)
def test_a_policy_comes_before_its_requester_where_it_acted_on_most_writes(acted, writes, told):
    ledger, sign = Ledger(mutators(policy(), binding())), ChangedBy.REQUESTER
    for number in range(writes):
        policies = (Acted("pins", is_sure=True),) if number < acted else ()
        one = replace(WRITE, requester=Requester("user", "kubectl"), policies=policies)
        ledger.add("x", Signal(sign, ("/spec/replicas",), "", (one.requester,)), one)
    (found,) = ledger.findings()
    assert [x.confidence.value for x in found.actors if x.type == "policy"] == [told]
