"""Which webhooks can have acted, and which of several is named first."""

import json
from collections import Counter

from msgspec.structs import replace

from genguard.admission.decode import decode_review
from genguard.admission.matching import Matched, ResourceKind, read_configurations, read_policies
from genguard.detection.finding import Confidence
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.write import Acted, Requester
from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.detection.builders import MUTATE, OUTCOME, joined, spec, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import BEGAN, binding, born, policy, rule

STATUS = Matched("apps", "v1", "deployments", "status", "UPDATE", "shop", "web", b'{"a": "b"}', b"")
HERE = ResourceKind("apps", "deployments", "status")
(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))


def hook(name, resources=("deployments/status",), path="/", **settings):
    covers = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources}
    client = {"url": f"https://127.0.0.1:1{path}"}
    one = {"name": "h.example.org", "clientConfig": client, "rules": [covers], **settings}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [one]}


OWN = [hook("0--genguard-intent", path="/intent"), hook("zzzzzz-genguard-mutate", path="/mutate")]


def mutators(*hooks: dict):
    return Mutators(read_configurations([*OWN, *hooks]), conditions=CONDITIONS)


def names(found):
    return [name.partition("/")[0] for name in found]


def test_genguards_own_and_what_sorts_outside_of_them_are_never_among_them():
    found = mutators(hook("0"), hook("mmm"), hook("zzzzzzz")).acting(STATUS)[0].first
    assert names(found) == ["mmm"]


def test_in_round_one_only_those_who_ask_for_it_are_called():
    both = mutators(hook("aaa"), hook("bbb", reinvocationPolicy="IfNeeded"))
    assert names(both.acting(STATUS)[0].first) == ["aaa", "bbb"]
    assert names(both.acting(STATUS)[0].again) == ["bbb"]


@table("attribution/likeliest.yaml", "one", "other", "first", "likely")
def test_of_two_who_may_have_done_it_the_likelier_one_is_named_first(case: Case) -> None:
    given = {name: case[name] for name in ("one", "other")}
    condition = [{"name": "c", "expression": "authorizer == null"}]
    found = mutators(*(
        born(
            hook(name, **({"matchConditions": condition} if one.get("conditional") else {})),
            BEGAN - one.get("young", 10_000_000),
        )
        for name, one in given.items()
    ))  # fmt: skip
    pair = found.acting(STATUS)[0].first
    shared = Counter((name, False) for name in pair)
    for name, one in zip(pair, given.values(), strict=True):
        for _ in range(one.get("here", 0)):
            found.record_unchanged([name], HERE)
        for _ in range(one.get("elsewhere", 0)):
            found.record_unchanged([name], HERE._replace(resource="replicasets"))
        shared += Counter({(name, True): one.get("alone", 0), (name, False): one.get("more", 0)})
    (first, sure), (_, never) = found.candidates(found.by_age(pair, BEGAN), shared, HERE)
    likely = Confidence.LIKELY if case["likely"] else Confidence.POSSIBLE
    assert (names([first]), sure) == ([case["first"]], likely), case.because
    assert never is Confidence.POSSIBLE


def test_one_candidate_is_certain():
    one = mutators(hook("aaa"), hook("bbb"))
    assert one.candidates(["aaa/h"], Counter(), HERE) == (("aaa/h", Confidence.CERTAIN),)


def told(found: Mutators, changed_by: ChangedBy, **write):
    """The finding of one write."""
    ledger = Ledger(found)
    asker = Requester("gitops", "")
    sign = Signal(
        changed_by,
        ("/spec/replicas",),
        "lost",
        (asker,) if changed_by is ChangedBy.REQUESTER else (),
    )
    one = replace(WRITE, time=BEGAN, requester=asker, **write)
    ledger.add("status-clobbered", sign, one)
    (finding,) = ledger.findings()
    notes = [(one["actor"], one["note"]) for one in finding.evidence if "note" in one]
    return [one.name for one in finding.actors], notes


def test_the_evidence_says_who_is_young():
    found = mutators(*(born(hook(f"m{number}"), BEGAN - 40) for number in range(9)))
    actors, notes = told(found, ChangedBy.OTHERS, called=found.acting(STATUS)[0])
    assert notes == [(name, "created 40 s before the first signal") for name in actors[:3]]


def test_of_equal_policies_the_young_one_comes_first():
    young = [born(one, BEGAN - 7) for one in (policy("zzz"), binding("zzz"))]
    found = Mutators((), read_policies([policy("aaa"), binding("aaa"), *young]))
    acted = (Acted("aaa", is_sure=False), Acted("zzz", is_sure=False))
    assert told(found, ChangedBy.REQUESTER, policies=acted) == (
        ["gitops", "zzz", "aaa"],
        [("zzz", "created 7 s before the first signal")],
    )


def test_what_is_no_configuration_and_who_only_observes_is_passed_over():
    observer = hook("mmm")
    observer["metadata"]["labels"] = {"genguard.io/trace": "1"}
    assert read_configurations([None, "text", {"kind": "Pod"}, observer]) == ()


@table("attribution/own.yaml", "name", "hook", "labels", "client", "phase")
def test_another_genguard_is_known_by_its_label_and_never_among_them(case: Case) -> None:
    one = hook(case["name"], clientConfig=case["client"])
    one["webhooks"][0]["name"] = case.get("hook", "h.example.org")
    one["metadata"]["labels"] = case.get("labels", {})
    (found,) = read_configurations([one])
    assert found.phase == case["phase"], case.because
    assert (found.name in [each.name for each in mutators(one).others]) <= (case["phase"] == "")


def test_who_is_called_for_one_name_alone_is_told_by_the_name():
    one = hook("mmm", ("*",))
    one["webhooks"][0]["rules"][0]["resourceNames"] = ["web"]
    found = mutators(one)
    for name, called in (("web", ["mmm"]), ("other", []), ("web", ["mmm"])):
        asked = make_review("UPDATE", "deployments", {}, {}, name=name)
        request = decode_review(json.dumps(asked).encode())
        assert names(found.acting_in(MUTATE, request)[0].first) == called


def test_conditions_are_not_asked_in_another_version_of_the_object():
    never = hook("mmm", matchConditions=[{"name": "c", "expression": "false"}])
    never["webhooks"][0]["rules"][0]["apiVersions"] = ["v1beta1"]
    found = mutators(never)
    found.changed(HERE)
    asked = make_review("UPDATE", "deployments", {}, {}, subresource="status")
    assert found.unmet_in(decode_review(json.dumps(asked).encode())) == ()


def test_of_many_policies_so_many_are_remembered_of_a_write():
    anywhere = {"rules": [rule("*/*", "*")]}
    wanted = [f"p{number:02}" for number in range(12)]
    documents = [one for name in wanted for one in (policy(name, **anywhere), binding(name))]
    elsewhere = [policy("a", rules=[rule("pods")]), binding("a")]
    found = Mutators((), read_policies([*elsewhere, *documents]), conditions=CONDITIONS)
    asked = make_review("UPDATE", "deployments", {}, {})
    acted = found.policies_in(decode_review(json.dumps(asked).encode()))
    assert [one.name for one in acted] == wanted[:8]


def test_who_sorts_as_genguard_itself_is_not_between_its_two():
    own = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": OWN[0]["metadata"]["name"]}}
    beside = {**own, "webhooks": [{**hook("x")["webhooks"][0], "name": "beside.example.org"}]}
    last = {**beside, "metadata": {"name": OWN[1]["metadata"]["name"]}}
    assert mutators(beside, last).others == ()
