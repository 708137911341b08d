"""Which webhooks are called for a resource, in which order, and who of them is a suspect."""

from types import SimpleNamespace

import pytest

from genguard.admission.matching import ResourceKind, Writes, read_configurations, read_policies
from genguard.admission.review import Phase
from genguard.detection.finding import Actor, Confidence
from genguard.detection.mutators import Mutators
from genguard.needed_phases import Need
from tests.unit.alerts.findings import finding
from tests.unit.detection.story import Story
from tests.unit.detection.test_mutators import OWN, hook
from webhook.cluster.registrations import Registrations
from webhook.dashboard.page import BadQueryError, PageContext
from webhook.dashboard.webhooks import Role, load

WHERE = ResourceKind("apps", "deployments", "status")
STATUS = {"resource": "deployments.apps", "subresource": "status", "namespace": "shop"}


class Sources:
    def __init__(
        self, mutators, *, connected=True, findings=(), registrations=Registrations
    ) -> None:
        self.mutators = mutators
        self.connected = connected
        self.registrations = registrations
        self.detecting = SimpleNamespace(findings=lambda: findings)


class Queue:
    async def in_thread(self, make):
        return make()


async def chain(*hooks: dict, query=STATUS, policies=(), **more):
    mutators = Mutators(read_configurations([*OWN, *hooks]), read_policies(policies))
    mutators.record_unchanged(["mmm/h.example.org"], WHERE)
    seen = await load(PageContext(Sources(mutators, **more), None, Queue()), query, 0.0)
    return seen.model


async def test_the_order_is_that_of_calls_and_nobody_is_a_suspect_without_a_finding():
    found = await chain(hook("zzzzzzzz"), hook("mmm"), hook("0"), hook("pods", ("pods",)))
    assert [(one.position, one.configuration, one.role) for one in found.webhooks] == [
        (1, "0", Role.OUTSIDE),
        (2, "0--genguard-intent", Role.OWN),
        (3, "mmm", Role.BETWEEN),
        (5, "zzzzzz-genguard-mutate", Role.OWN),
        (6, "zzzzzzzz", Role.OUTSIDE),
    ]
    assert found.registered == 6


def names(*actors: str, **changed):
    """A finding that names these webhooks, all of them for certain."""
    found = tuple(Actor("webhook", one, "", Confidence.CERTAIN) for one in actors)
    return finding(actors=found, **changed)


@pytest.mark.parametrize(
    ("given", "role", "ids", "changed"),
    [
        (names("mmm/h.example.org", id="a", count=7), Role.SUSPECT, ["a"], 7),
        (names("mmm/h.example.org", id="a", state="quiet"), Role.SUSPECT, ["a"], 3),
        (names("mmm/h.example.org", state="resolved", count=7), Role.BETWEEN, [], 7),
        (names("other/h.example.org"), Role.BETWEEN, [], 0),
        (finding(actors=(Actor("user", "mmm/h.example.org", "", Confidence.CERTAIN),)),
         Role.BETWEEN, [], 0),
    ],
)  # fmt: skip
async def test_a_suspect_is_named_by_a_finding_that_is_not_resolved(given, role, ids, changed):
    page = await chain(hook("mmm"), findings=(given,))
    (one,) = [one for one in page.webhooks if one.configuration == "mmm"]
    assert (one.role, [found.id for found in one.findings]) == (role, ids)
    assert (one.changed, one.unchanged) == (changed, 1)


async def test_policy_and_timeout_are_shown_with_the_defaults_of_the_api_server():
    given = hook("aaa"), hook("mmm", failurePolicy="Ignore", timeoutSeconds=3)
    found = {one.configuration: one for one in (await chain(*given)).webhooks}
    assert (found["aaa"].failure_policy, found["aaa"].timeout_seconds) == ("Fail", 10)
    assert (found["mmm"].failure_policy, found["mmm"].timeout_seconds) == ("Ignore", 3)


async def test_an_operation_is_one_of_those_that_are_admitted():
    with pytest.raises(BadQueryError, match="operation must be one of"):
        await chain(query={"resource": "pods", "operation": "GET"})


async def test_a_cluster_that_nobody_is_connected_to_is_told_apart_from_an_empty_one():
    assert not (await chain(connected=False)).connected


def registrations(phases=(Phase.MUTATE,), changed_by=("mmm/h.example.org",), reverted_by=""):
    writes = Writes("apps", "deployments/status", "UPDATE")
    need = Need(writes, (*phases, Phase.OUTCOME), changed_by)
    return lambda: Registrations((need,), {writes: need.phases}, reverted_by)


@pytest.mark.parametrize(
    ("query", "shown"), [(STATUS, 1), ({}, 1), ({"resource": "pods"}, 0)], ids=str
)
async def test_it_shows_what_is_registered_for_the_writes_that_are_asked_for_and_why(query, shown):
    page = await chain(hook("mmm"), query=query, registrations=registrations())
    assert len(page.followed) == shown
    for one in page.followed:
        assert one.writes == "UPDATE deployments/status of apps"
        assert one.phases == ("/mutate", "/outcome")
        assert one.changed_by == ("mmm/h.example.org",)


async def test_who_writes_the_registrations_back_is_shown():
    page = await chain(registrations=registrations(reverted_by="argocd-controller"))
    assert page.reverted_by == "argocd-controller"


async def test_it_tells_what_a_webhook_does_to_each_kind_and_in_which_share_of_the_writes():
    story = Story(resource="pods", found={})
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    step = {"at": 0, "every": 9, "by": "maker", "creates": {"generateName": "web-"}}
    asked = {"containers": [{"name": "c", "image": "a"}], "initContainers": [sidecar]}
    left = {"containers": [{"name": "c", "image": "b"}], "initContainers": [{"name": "proxy"}]}
    story.play({**step, "times": 3, "asks": {"spec": asked}, "left": {"spec": left}})
    story.play({**step, "times": 2, "at": 40, "asks": {"spec": {"a": 1}}})
    page = await load(PageContext(Sources(story.mutators), None, Queue()), {}, 0.0)
    (one,) = [one for one in page.model.webhooks if one.configuration == "once"]
    (changes,) = one.changes
    assert (changes.operation, changes.resource) == ("CREATE", "pods")
    assert (changes.called, changes.changed, changes.shared) == (5, 3, 3)
    assert [(did.does, did.field, did.writes) for did in changes.does] == [
        ("removes", "spec.initContainers[*].restartPolicy", 3),
        ("replaces", "spec.containers[*].image", 3),
    ]
