"""Which webhooks are called for a resource, in which order, and who of them is a suspect."""

import pytest

from tests.unit.detection.policies import binding, policy, rule
from tests.unit.detection.test_suspects import OWN, hook
from webhook.dashboard.page import BadQueryError, PageContext
from webhook.dashboard.webhooks import Role, load
from webhook.detection.policies import read_policies
from webhook.detection.static_manifests import read_static
from webhook.detection.suspects import Suspects, read_configurations

STATUS = {"resource": "deployments.apps", "subresource": "status", "namespace": "shop"}


class Sources:
    def __init__(self, suspects, *, connected=True) -> None:
        self.suspects = suspects
        self.connected = connected


async def chain(*hooks: dict, query=STATUS, policies=(), static=(), **more):
    suspects = Suspects(
        read_configurations([*OWN, *hooks]), read_policies(policies), static=read_static(static)
    )
    seen = await load(PageContext(Sources(suspects, **more), None, None), query, 0.0)
    return seen.model


async def test_the_order_is_that_of_calls_and_only_those_in_between_are_suspects():
    found = await chain(hook("zzzzzzzz"), hook("mmm"), hook("0"), hook("pods", ("pods",)))
    assert [(one.position, one.configuration, one.role) for one in found.webhooks] == [
        (1, "0", Role.OUTSIDE),
        (2, "0--genguard-intent", Role.OWN),
        (3, "mmm", Role.SUSPECT),
        (5, "zzzzzz-genguard-mutate", Role.OWN),
        (6, "zzzzzzzz", Role.OUTSIDE),
    ]
    assert found.registered == 6


@pytest.mark.parametrize(
    ("settings", "is_called", "depends"),
    [
        ({}, True, ()),
        ({"resources": ("pods",)}, False, ()),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, True, ()),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False, ()),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True, ("labels of the namespace",)),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True, ("labels of the object",)),
        ({"matchConditions": [{"name": "c", "expression": "x"}]}, True, ("1 matchConditions",)),
    ],
)
async def test_what_a_url_does_not_show_is_told_as_what_a_call_depends_on(
    settings, is_called, depends
):
    found = [one for one in (await chain(hook("mmm", **settings))).webhooks if one.role != Role.OWN]
    assert [one.depends_on for one in found] == [depends] * is_called


async def test_without_a_resource_all_are_shown():
    assert len((await chain(hook("a", ("pods",)), query={})).webhooks) == 3


@pytest.mark.parametrize(
    ("settings", "query", "may_act"),
    [
        ({}, {"resource": "deployments.apps"}, True),
        ({}, {"resource": "deployments.apps", "namespace": "shop"}, True),
        ({}, {"resource": "pods"}, False),
        ({"rules": [rule(scope="Namespaced")]}, {"resource": "deployments.apps"}, True),
        ({"rules": [rule(operations=["CREATE"])]}, {"resource": "deployments.apps"}, False),
        (
            {"constraints": {"objectSelector": {"matchLabels": {"a": "b"}}}},
            {"resource": "deployments.apps"},
            True,
        ),
    ],
)
async def test_policies_that_may_act_come_before_all_of_them(settings, query, may_act):
    policies = [policy("mine", **settings), binding("mine")]
    assert (await chain(query=query, policies=policies)).policies == ("mine",) * may_act


async def test_static_webhooks_stand_before_all_that_are_registered():
    given = hook("pins.static.k8s.io"), hook("pods.static.k8s.io", ("pods",))
    found = await chain(static=given)
    assert found.policies == ("pins.static.k8s.io/h.example.org",)
    assert len((await chain(static=given, query={})).policies) == 2


async def test_without_a_namespace_a_resource_may_be_of_either_scope():
    for scope in ("Namespaced", "Cluster", "*"):
        one = hook("mmm")
        one["webhooks"][0]["rules"][0]["scope"] = scope
        assert len((await chain(one, query={**STATUS, "namespace": ""})).webhooks) == 3


async def test_an_operation_is_one_of_those_that_are_admitted():
    with pytest.raises(BadQueryError, match="operation must be one of"):
        await chain(query={"resource": "pods", "operation": "GET"})


async def test_a_cluster_that_nobody_is_connected_to_is_told_apart_from_an_empty_one():
    assert not (await chain(connected=False)).connected
