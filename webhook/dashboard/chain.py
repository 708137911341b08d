"""The webhooks that are called for a resource, in the API server's order, suspects marked.

Order: policies, then mutating webhooks by the name of their configuration, then the kind's
strategy, then validating webhooks. What a review would show and a URL does not (labels, the user,
what conditions read) is told as what a call depends on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import structs

from webhook.dashboard.scene import Scene, Seen, known_only, one_of
from webhook.detection.matching import NAME_LABEL, Matched, matches_rules
from webhook.detection.policies import Policy
from webhook.detection.suspects import Registered
from webhook.objects.selectors import Truth, matches_labels

OPERATIONS: Final = ("UPDATE", "CREATE", "DELETE", "CONNECT")
_PARAMETERS: Final = ("resource", "subresource", "operation", "namespace")
_MOST: Final = 500


class Role(StrEnum):
    """What a webhook is to genguard."""

    OWN = "genguard"
    SUSPECT = "suspect"
    OUTSIDE = "outside"


class Link(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook; `position` is its place among all mutating webhooks, from 1."""

    position: int
    configuration: str
    webhook: str
    role: Role
    phase: str
    reinvoked: bool
    rules: tuple[str, ...]
    depends_on: tuple[str, ...]


class Chain(msgspec.Struct, frozen=True, rename="camel"):
    """`policies` may act before all of them; `registered` is how many webhooks there are."""

    policies: tuple[str, ...]
    webhooks: tuple[Link, ...]
    registered: int
    connected: bool


async def look(scene: Scene, query: Mapping[str, str], now: float) -> Seen:
    """The chain of a resource, or of everything where none is named."""
    del now
    known_only(query, _PARAMETERS)
    resource, _, group = query.get("resource", "").strip().partition(".")
    write = Matched(
        group=group,
        version="",
        resource=resource,
        subresource=query.get("subresource", "").strip().lstrip("/"),
        operation=one_of(query, "operation", OPERATIONS, "UPDATE"),
        namespace=query.get("namespace", "").strip(),
        name="",
        labels={},
        old_labels={},
    )
    suspects = scene.sources.suspects
    others = {one.name for one in suspects.others}
    links = [
        _link(position, one, is_suspect=one.name in others, write=write)
        for position, one in enumerate(suspects.registered, 1)
        if not resource or _is_called(one, write)
    ]
    policies = [one.name for one in suspects.policies if not resource or _may_act(one, write)]
    model = Chain(
        tuple(policies[:_MOST]),
        tuple(links[:_MOST]),
        len(suspects.registered),
        scene.sources.connected,
    )
    return Seen(model, {"write": write, "named": bool(resource), "operations": OPERATIONS})


def _is_called(one: Registered, write: Matched) -> bool:
    if not any(matches_rules(one.rules, each, any_version=True) for each in _scopes(write)):
        return False
    labels = {NAME_LABEL: write.namespace}
    outside = write.namespace and matches_labels(one.namespace_selector, labels, complete=False)
    return outside is not Truth.FALSE


def _may_act(one: Policy, write: Matched) -> bool:
    """Selectors that need labels let everything pass here."""
    unknown = {"objectSelector"} if write.namespace else {"objectSelector", "namespaceSelector"}

    def known(resources: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in resources.items() if key not in unknown}

    bindings = tuple(replace(each, resources=known(each.resources)) for each in one.bindings)
    wide = replace(one, constraints=known(one.constraints), bindings=bindings)
    return any(wide.covers(each) is not Truth.FALSE for each in _scopes(write))


def _scopes(write: Matched) -> tuple[Matched, ...]:
    """Without a namespace the resource may be one of either scope."""
    return (write,) if write.namespace else (write, structs.replace(write, namespace="any"))


def _link(position: int, one: Registered, *, is_suspect: bool, write: Matched) -> Link:
    return Link(
        position=position,
        configuration=one.configuration,
        webhook=one.webhook,
        role=Role.OWN if one.phase else Role.SUSPECT if is_suspect else Role.OUTSIDE,
        phase=one.phase,
        reinvoked=one.reinvoked,
        rules=tuple(_told(rule) for rule in one.rules),
        depends_on=tuple(_depends(one, write)),
    )


def _told(rule: Mapping[str, Any]) -> str:
    """`UPDATE deployments/status of apps`."""
    parts = (",".join(rule.get(key) or ()) for key in ("operations", "apiGroups", "resources"))
    operations, groups, resources = parts
    return f"{operations} {resources} of {groups or 'the core group'}"


def _depends(one: Registered, write: Matched) -> Iterator[str]:
    labels = {NAME_LABEL: write.namespace} if write.namespace else {}
    if matches_labels(one.namespace_selector, labels, complete=False) is not Truth.TRUE:
        yield "labels of the namespace"
    if one.object_selector:
        yield "labels of the object"
    if one.conditions:
        yield f"{len(one.conditions)} matchConditions"
