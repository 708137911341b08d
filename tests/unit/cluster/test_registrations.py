"""When the server widens and narrows its registrations, and when it leaves them alone."""

import asyncio
from copy import deepcopy
from http import HTTPStatus

from genguard.admission.matching import Writes, may_match, read_configurations
from genguard.admission.review import Phase
from genguard.detection.mutators import Mutators
from genguard.generation.custom import CustomResource, StatusSubresource
from tests.unit.cluster.objects import Leads
from tests.unit.detection.test_mutators import hook
from tests.unit.manifest_files import registrations
from webhook.cluster.registrations import KEPT_SECONDS, LEFT_SECONDS, LOOK_SECONDS, Follower
from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of

STATUS = Writes("apps", "deployments/status", "UPDATE")
HOOKS = "intent", "mutate", "repair", "outcome", "changed"


class Api:
    """Keeps the three registrations, and who wrote the rules of each last."""

    def __init__(self) -> None:
        self.found = {path_of(one): deepcopy(one) for one in registrations().values()}
        self.paths = dict(zip(registrations(), self.found, strict=True))
        self.written: list[str] = []
        for one in self.found.values():
            one["metadata"]["resourceVersion"] = "1"

    async def call(self, method, path, body=None, *, params=None, content_type=""):
        if path not in self.found:
            raise RefusedError(HTTPStatus.NOT_FOUND, "not found")
        if method == "PUT":
            assert body["metadata"]["resourceVersion"] == "1"
            self.put(path, body, params["fieldManager"])
            self.written.append(path)
        return deepcopy(self.found[path])

    def put(self, path, body, manager):
        names = [one["name"] for one in body["webhooks"]]
        owned = {f'k:{{"name":"{name}"}}': {"f:rules": {}} for name in names}
        entry = {
            "manager": manager,
            "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:webhooks": owned},
        }
        self.found[path] = deepcopy(body)
        self.found[path]["metadata"]["managedFields"] = [entry]

    def has(self, name, writes=STATUS):
        hooks = [one for body in self.found.values() for one in body["webhooks"]]
        (hook,) = (one for one in hooks if one["name"] == f"{name}.genguard.io")
        return may_match(hook["rules"], writes)


class Scene:
    def __init__(self, *, enforcing=False, is_leader=True) -> None:
        self.now = 0.0
        self.api, self.mutators, self.leads = Api(), Mutators(), Leads(is_leader=is_leader)
        self.refused: set[Writes] = set()
        self.custom: tuple[CustomResource, ...] = ()
        self.whole = deepcopy(self.api.found)
        self.follower = Follower(
            self.api,
            self.mutators,
            self.leads,
            enforcing=enforcing,
            refused=self.refused.__contains__,
            custom=lambda: self.custom,
            clock=lambda: self.now,
        )

    def look(self, seconds=0.0):
        self.now += seconds
        asyncio.run(self.follower.look())

    def narrow(self):
        self.look()
        self.look(KEPT_SECONDS)

    def revert(self, manager):
        for path, whole in self.whole.items():
            self.api.put(path, {**whole, "metadata": self.api.found[path]["metadata"]}, manager)


def test_where_genguard_only_repairs_it_is_called_for_what_loses_a_value():
    scene = Scene(enforcing=True)
    scene.narrow()
    assert [one for one in HOOKS if scene.api.has(one)] == ["repair", "outcome"]
    scene.mutators.learn(read_configurations([hook("mmm")]))
    scene.look()
    assert [one for one in HOOKS if scene.api.has(one)] == ["intent", "mutate", "outcome"]


def test_a_custom_resource_is_registered_for_where_somebody_changes_it_or_genguard_repairs():
    for enforcing in (False, True):
        scene = Scene(enforcing=enforcing)
        scene.custom = (CustomResource("x.io", "v1", "as", "A", StatusSubresource.PRESENT),)
        scene.narrow()
        called = [one for one in HOOKS if scene.api.has(one, Writes("x.io", "as/status", "UPDATE"))]
        assert called == ["repair"] * enforcing
        scene.mutators.learn(read_configurations([hook("mmm", ("as",))]))
        scene.look()
        for operation in ("CREATE", "UPDATE"):
            made = Writes("x.io", "as", operation)
            called = [one for one in HOOKS if scene.api.has(one, made)]
            assert called == ["intent", "mutate", "changed"]
        assert scene.api.has("changed", Writes("x.io", "as", "DELETE"))
        scene.mutators.learn(())
        scene.narrow()
        assert not scene.api.has("changed", made)


def test_rules_of_its_own_that_somebody_takes_away_are_left_away_for_an_hour():
    scene = Scene(enforcing=True)
    scene.narrow()
    scene.revert("argocd-controller")
    scene.look(1)
    assert scene.follower.registered.reverted_by == "argocd-controller"
    assert scene.api.has("mutate")
    assert not scene.api.has("repair")


def test_writes_that_are_refused_get_mutate():
    scene = Scene()
    scene.narrow()
    scene.refused.add(STATUS)
    scene.look()
    assert scene.api.has("mutate")
    assert not scene.api.has("intent")


def test_a_replica_that_stands_by_writes_nothing():
    scene = Scene(is_leader=False)
    scene.narrow()
    assert not scene.api.written
    assert scene.follower.registered.phases[STATUS] == (*Phase,)


def test_nothing_is_written_while_an_installation_goes_on_or_is_still_to_come():
    scene = Scene()
    del scene.api.found[scene.api.paths["intent"]]
    scene.look(KEPT_SECONDS)
    assert not scene.api.written


def test_who_writes_the_rules_back_is_named_and_they_are_left_alone_for_an_hour():
    scene = Scene()
    scene.narrow()
    assert not scene.api.has("intent")
    scene.now += 5
    scene.revert("argocd-controller")
    scene.look(1)
    assert scene.follower.registered.reverted_by == "argocd-controller"
    written = len(scene.api.written)
    for _ in range(int(LEFT_SECONDS / KEPT_SECONDS) - 1):
        scene.look(KEPT_SECONDS)
    assert len(scene.api.written) == written
    assert scene.api.has("intent")
    scene.look(KEPT_SECONDS)
    assert not scene.follower.registered.reverted_by
    assert not scene.api.has("intent")


def test_an_installation_that_proves_all_phases_again_is_no_revert():
    scene = Scene()
    for _ in range(2):
        scene.narrow()
        assert not scene.api.has("intent")
        scene.revert("genguard")
        scene.look(1)
    assert not scene.follower.registered.reverted_by


def test_nothing_is_looked_at_before_webhooks_and_policies_are_known():
    scene, woken = Scene(), list[bool]()
    scene.mutators.on_change = lambda: woken.append(True)
    scene.mutators.learn(registered=())
    assert asyncio.run(scene.follower.step()) == LOOK_SECONDS
    assert not scene.follower.registered.needs
    scene.mutators.learn(policies=())
    asyncio.run(scene.follower.step())
    assert scene.follower.registered.needs
    assert woken == [True, True]
