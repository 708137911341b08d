"""The requester, or a policy that acted on its write before anybody saw it."""

import pytest
from msgspec.structs import replace

from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, joined, spec, update
from tests.unit.detection.policies import apply, binding, patch, policy, rule
from tests.unit.detection.test_suspects import hook
from webhook.detection.askers import Askers
from webhook.detection.detection import Detection
from webhook.detection.policies import read_policies
from webhook.detection.suspects import Suspects, read_configurations
from webhook.detection.write import Acted, Requester

FOR_GITOPS = "request.userInfo.username == 'gitops'"
LABELS = apply("Object{metadata: Object.metadata{labels: {'team': 'a'}}}")


def fought(*documents: dict):
    """Two users turn replicas to and fro; what gitops asks for may be a policy's doing."""
    detection = Detection(Suspects(read_configurations(documents), read_policies(documents)))
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
    detection = Detection(Suspects((), read_policies([policy(rules=[rule("*/*")]), binding()])))
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
    detection = Detection(Suspects(read_configurations(documents), read_policies(documents)))
    for turn in range(4):
        old = {"status": {"n": turn}}
        sent = {"status": {"n": turn + 1, "observedGeneration": 1}}
        for phase, new in ((INTENT, sent), (MUTATE, {"status": {"n": turn + 1}}), (OUTCOME, sent)):
            asked = update(new, old, base=str(turn), subresource="status")
            feed(detection, phase, asked, float(turn))
    found = {one.detector: one for one in detection.findings()}["observed-generation-cleared"]
    assert [(one.type, one.name) for one in found.actors] == [("webhook", "mmm/h.example.org")]


def requester(number: int) -> Requester:
    return Requester(f"user-{number:02}", "")


def test_of_many_requesters_the_first_are_remembered_and_counted_on():
    askers = Askers()
    for number in (*range(9), 1, 8):
        askers.blame([requester(number)])
    named = [one.name for one in askers.actors(is_sure=True)]
    assert named == ["user-01", "user-00", "user-02", "user-03"]


def test_of_many_users_and_policies_the_first_are_looked_at():
    asked, askers = update(spec(replicas=2), spec(replicas=1)), Askers()
    (write,) = joined((OUTCOME, asked))
    acted = tuple(Acted(f"p{number:02}", is_sure=True) for number in range(20))
    for number in range(9):
        one = replace(write, requester=requester(number), policies=acted)
        askers.look(one, ("/spec/replicas",), Suspects())
    named = {one.name for one in askers.actors(is_sure=False)}
    assert named == {f"p{number:02}" for number in range(16)}


def test_what_two_have_seen_is_together_no_more_than_one_may_keep():
    one, other = Askers(), Askers()
    for askers, numbers in ((one, (0, 1, 2, 3, 3)), (other, (4, 5, 5, 6, 7))):
        for number in numbers:
            askers.blame([requester(number)])
    (write,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))
    sets = Suspects((), read_policies([policy(), binding()]))
    for askers, user, policies in (
        (one, 0, [f"a{n:02}" for n in range(16)]),
        (one, 0, [f"a{n:02}" for n in range(16)]),
        (other, 0, ["pins"]),
    ):
        acted = tuple(Acted(name, is_sure=True) for name in policies)
        seen = replace(write, requester=requester(user), policies=acted)
        askers.look(seen, ("/spec/replicas",), sets)
    one.absorb(other)
    actors = list(one.actors(is_sure=True))
    assert [a.name for a in actors if a.type == "user"] == [
        "user-03", "user-05", "user-01", "user-00",
    ]  # fmt: skip
    assert "pins" not in {a.name for a in actors}
