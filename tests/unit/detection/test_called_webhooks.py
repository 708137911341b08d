"""Of the webhooks that match a write only those are suspects whose matchConditions it meets."""

import pytest

from genguard.detection.detection import Detection
from genguard.detection.matching import ResourceKind, read_policies
from genguard.detection.suspects import Suspects, read_configurations
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    feed,
    reviewed,
    status,
    update,
)
from tests.unit.detection.evaluating import CONDITIONS, Evaluated
from tests.unit.detection.policies import binding, policy, rule
from tests.unit.detection.test_suspects import hook

OLD, SENT, LEFT = status(), status(observedGeneration=1, n=1), status(n=1)


def only_if(*expressions: str):
    return {"matchConditions": [{"name": "c", "expression": one} for one in expressions]}


def detect(suspects, sent=SENT, left=LEFT, times=2, **more):
    """The first write teaches that somebody changes status here."""
    detection = Detection(suspects)
    for base in range(times):
        for phase, new in ((INTENT, sent), (MUTATE, left), (OUTCOME, sent)):
            one = update(new, OLD, str(base), subresource="status", **more)
            feed(detection, phase, one, 100.0)
    return detection


def accused(*hooks: dict):
    """Who is said to have cleared an observedGeneration that was sent."""
    found = detect(Suspects(read_configurations(hooks), conditions=CONDITIONS)).findings()
    (cleared,) = [one for one in found if one.detector == "observed-generation-cleared"]
    return [(one.name.partition("/")[0], one.confidence.value) for one in cleared.actors]


@pytest.mark.parametrize(
    ("condition", "named", "because"),
    [
        ("request.userInfo.username == 'nobody'", False, "another user is asking"),
        ("request.resource.resource == 'pods'", False, "another resource"),
        ("object.metadata.name == 'other'", False, "another object"),
        ("oldObject.status.n == 1", True, "an error: what the API server made of it is not known"),
        ("has(object.status.observedGeneration)", True, "true when it was called, not afterwards"),
        ("!has(object.status.observedGeneration)", True, "true once another webhook had acted"),
        ("authorizer.path('/').check('get').allowed()", True, "only the API server can tell"),
        ("object.status.n == 1", True, "true"),
    ],
)
def test_a_webhook_whose_condition_is_false_is_no_suspect(condition, named, because):
    found = accused(hook("aaa", **only_if(condition)), hook("bbb"))
    assert ("aaa" in dict(found)) is named, because
    assert dict(found)["bbb"] == ("possible" if named else "certain"), because


class Counting(Evaluated):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = []

    def evaluate(self, expressions, request):
        self.asked += expressions
        return super().evaluate(expressions, request)


def asked(*documents: dict, **more):
    suspects = Suspects(
        read_configurations(documents), read_policies(documents), conditions=CONDITIONS
    )
    suspects.conditions = Counting()
    detect(suspects, **more)
    return suspects.conditions.asked


def test_what_was_changed_once_rules_nobody_out_and_the_second_time_does():
    hooks = hook("aaa", **only_if("false")), hook("bbb")
    once, twice = (
        detect(Suspects(read_configurations(hooks), conditions=CONDITIONS), times=times)
        for times in (1, 2)
    )
    (first,), (second,) = once.findings(), twice.findings()
    assert [one.confidence.value for one in first.actors] == ["possible", "possible"]
    assert [one.name.partition("/")[0] for one in second.actors] == ["bbb"]


def test_conditions_are_evaluated_only_for_webhooks_that_match_and_sort_in_between():
    own = hook("mmm-genguard-intent", path="/intent")
    elsewhere = hook("zzz", ("pods",), **only_if("true"))
    before = hook("aaa", **only_if("true"))
    assert asked(own, before, elsewhere) == []


def test_conditions_of_policies_are_evaluated_only_where_something_was_asked():
    documents = [policy(rules=[rule("*", "*/*")], conditions=("true",)), binding()]
    assert asked(*documents, times=1) == ["true"]
    assert asked(*documents[:1]) == []


def test_of_a_write_that_asks_for_nothing_no_policy_is_remembered():
    documents = [policy(conditions=("true",)), binding()]
    suspects = Suspects((), read_policies(documents), conditions=CONDITIONS)
    suspects.conditions = Counting()
    same = {"spec": {"replicas": 1}}
    detection = Detection(suspects)
    for phase in (INTENT, MUTATE, OUTCOME):
        feed(detection, phase, update(same, same), 100.0)
    assert suspects.conditions.asked == []


STATUS = ResourceKind("apps", "deployments", "status")
OWN_KIND = STATUS._replace(subresource="")


@pytest.mark.parametrize(
    ("expressions", "is_unmet"),
    [
        (("true", "true"), False),
        (("true", "object.nope == 1"), False),
        (("object.nope == 1", "false"), True),
        (("authorizer.path('/').check('get').allowed()", "false"), True),
        (("false", "true"), True),
    ],
)
def test_one_false_condition_decides_whatever_is_unknown(expressions, is_unmet):
    (found,) = read_configurations([hook("aaa", ("*",), **only_if(*expressions))])
    suspects = Suspects([found], conditions=CONDITIONS)
    suspects.changed(OWN_KIND)
    request = reviewed(update({"spec": 1}, {"spec": 2}), INTENT).request
    assert bool(suspects.unmet_in(request)) is is_unmet


@pytest.mark.parametrize(
    ("documents", "place", "is_slow", "because"),
    [
        ([hook("aaa", ("*",), **only_if("true"))], OWN_KIND, True, "a webhook has a condition"),
        ([hook("aaa", ("*",), **only_if("true"))], STATUS, False, "nobody changes writes here"),
        ([hook("aaa", ("*",))], OWN_KIND, False, "no webhook has a condition"),
        ([policy(conditions=("true",)), binding()], STATUS, True, "a policy has a condition"),
        ([policy(), binding()], OWN_KIND, False, "no policy has a condition"),
    ],
)
def test_a_review_is_slow_where_conditions_may_be_evaluated(documents, place, is_slow, because):
    suspects = Suspects(read_configurations(documents), read_policies(documents), CONDITIONS)
    suspects.changed(place)
    request = reviewed(update({"spec": 1}, {"spec": 2}), INTENT).request
    assert Detection(suspects).is_slow(request) is is_slow, because
