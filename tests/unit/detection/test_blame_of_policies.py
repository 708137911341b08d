"""The requester, or a policy that acted on its write before anybody saw it."""

import pytest
from msgspec.structs import replace

from genguard.detection.detection import Detection
from genguard.detection.finding_state import Requesters
from genguard.detection.matching import read_policies
from genguard.detection.suspects import Suspects, read_configurations
from genguard.detection.write import Acted, Requester
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, joined, spec, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import apply, binding, patch, policy, rule
from tests.unit.detection.test_suspects import hook

FOR_GITOPS = "request.userInfo.username == 'gitops'"
LABELS = apply("Object{metadata: Object.metadata{labels: {'team': 'a'}}}")


def fought(*documents: dict):
    """Two users turn replicas to and fro; what gitops asks for may be a policy's doing."""
    detection = Detection(
        Suspects(read_configurations(documents), read_policies(documents), conditions=CONDITIONS)
    )
    for turn in range(12):
        user, new, old = (("gitops", 2, 5), ("autoscaler", 5, 2))[turn % 2]
        asked = update(spec(replicas=new), spec(replicas=old), base=str(turn), user=user)
        for phase in (INTENT, MUTATE, OUTCOME):
            feed(detection, phase, asked, float(turn))
    (found,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    return [(one.type, one.name, one.confidence.value) for one in found.actors]


AUTOSCALER = ("user", "autoscaler", "certain")


def test_without_policies_both_requesters_are_certain():
    assert fought() == [AUTOSCALER, ("user", "gitops", "certain")]


def test_a_policy_that_visibly_sets_the_field_is_likely_and_its_requester_only_possible():
    found = fought(policy(conditions=(FOR_GITOPS,)), binding())
    assert found == [AUTOSCALER, ("policy", "pins", "likely"), ("user", "gitops", "possible")]


def test_nothing_but_a_policy_on_every_write_stands_before_all_requesters():
    found = fought(policy(), binding())
    assert found[0] == ("policy", "pins", "likely")
    assert {one[2] for one in found[1:]} == {"possible"}


@pytest.mark.parametrize(
    ("documents", "because"),
    [
        ([policy("pins", LABELS), binding()], "it sets something else"),
        (
            [policy(paramKind={"kind": "ConfigMap"}), binding(paramRef={"name": "p"})],
            "its parameter is not known",
        ),
        (
            [policy(), binding(matchResources={"namespaceSelector": {"matchLabels": {"a": "b"}}})],
            "labels of the namespace are not known",
        ),
        (
            [policy(conditions=("authorizer.path('/').check('get').allowed()",)), binding()],
            "its condition cannot be evaluated",
        ),
        (
            [policy(conditions=("object.spec.replicas > 5",)), binding()],
            "what the object was before the policy acted is not seen",
        ),
    ],
)
def test_a_policy_that_may_have_acted_leaves_its_requesters_likely(documents, because):
    assert fought(*documents) == [
        ("user", "autoscaler", "likely"),
        ("user", "gitops", "likely"),
        ("policy", "pins", "possible"),
    ], because


@pytest.mark.parametrize(
    ("documents", "because"),
    [
        ([policy()], "it has no binding"),
        ([policy(rules=[rule("pods")]), binding()], "it matches other resources"),
        ([policy(rules=[rule(operations=["CREATE"])]), binding()], "it matches other operations"),
        ([policy(conditions=("request.userInfo.username == 'x'",)), binding()], "not these users"),
        ([policy(conditions=("oldObject.spec.replicas > 9",)), binding()], "not this object"),
    ],
)
def test_a_policy_that_cannot_have_acted_is_not_named(documents, because):
    assert fought(*documents) == fought(), because


def test_where_the_intent_was_not_seen_a_policy_is_no_more_than_possible():
    detection = Detection(
        Suspects((), read_policies([policy(rules=[rule("*/*")]), binding()]), conditions=CONDITIONS)
    )
    for turn in range(4):
        gone = update(
            {"status": {"n": turn}}, {"status": {"observedGeneration": 1}}, base=str(turn),
            subresource="status", user="old",
        )  # fmt: skip
        set_by = update(
            {"status": {"observedGeneration": 1}}, {"status": {}}, base=f"{turn}.5",
            subresource="status", user="controller",
        )  # fmt: skip
        for asked in (set_by, gone):
            for phase in (MUTATE, OUTCOME):
                feed(detection, phase, asked, float(turn))
    found = {one.detector: one for one in detection.findings()}["observed-generation-cleared"]
    told = [(one.type, one.name, one.confidence.value) for one in found.actors]
    assert told == [("user", "old", "possible"), ("policy", "pins", "possible")]


def test_a_policy_is_never_named_for_what_came_after_intent():
    zeroes = patch('[JSONPatch{op: "add", path: "/status/observedGeneration", value: 0}]')
    documents = [
        policy("zeroes", zeroes, rules=[rule("*/*")]), binding("zeroes"), hook("mmm"),
    ]  # fmt: skip
    detection = Detection(
        Suspects(read_configurations(documents), read_policies(documents), conditions=CONDITIONS)
    )
    for turn in range(4):
        old = {"status": {"n": turn}}
        sent = {"status": {"n": turn + 1, "observedGeneration": 1}}
        for phase, new in ((INTENT, sent), (MUTATE, {"status": {"n": turn + 1}}), (OUTCOME, sent)):
            asked = update(new, old, base=str(turn), subresource="status")
            feed(detection, phase, asked, float(turn))
    found = {one.detector: one for one in detection.findings()}["observed-generation-cleared"]
    assert [(one.type, one.name) for one in found.actors] == [("webhook", "mmm/h.example.org")]


(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))
PINS = Suspects((), read_policies([policy(), binding()]), conditions=CONDITIONS)


def requester(number: int) -> Requester:
    return Requester(f"user-{number:02}", "kubectl")


def look(requesters: Requesters, number: int, *policies: str) -> None:
    """A write of this user on which these policies acted; `pins` sets what is told of."""
    acted = tuple(Acted(name, is_sure=True) for name in policies)
    write = replace(WRITE, requester=requester(number), policies=acted)
    requesters.look(write, ("/spec/replicas",), PINS)


def confidence(requesters: Requesters) -> dict[str, str]:
    return {one.name: one.confidence.value for one in requesters.actors(is_sure=True)}


@pytest.mark.parametrize(
    ("acted", "writes", "told"),
    [(1, 3, "possible"), (1, 2, "possible"), (2, 3, "likely"), (3, 3, "likely")],
)
def test_a_policy_comes_before_its_requester_where_it_acted_on_most_writes(acted, writes, told):
    requesters = Requesters()
    for number in range(writes):
        look(requesters, 0, *["pins"] * (number < acted))
    assert confidence(requesters) == {"pins": told}
