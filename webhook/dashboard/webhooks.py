"""The page of webhooks: those called for a resource, in call order, with suspects marked.

A suspect is a webhook that an unresolved finding names. A call between /intent and /mutate alone
makes no webhook a suspect.

Order: policies, then mutating webhooks by the name of their configuration,
then the kind's strategy, then validating webhooks. A URL has no labels, user or object, so the
page lists what else a call depends on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import structs

from genguard.admission.matching import EVERYTHING, NAME_LABEL, Matched, Registration, Writes
from genguard.detection.finding import Confidence, Finding, Severity
from genguard.detection.webhook_changes import WebhookChanges
from genguard.objects.selectors import Truth, matches_labels
from webhook.cluster.registrations import Registrations
from webhook.dashboard.page import PageContext, PageData, check_parameters, choice
from webhook.dashboard.rendering import shown_severity

OPERATIONS: Final = ("UPDATE", "CREATE", "DELETE", "CONNECT")
_PARAMETERS: Final = ("resource", "subresource", "operation", "namespace")
_MOST: Final = 500
_MOST_NAMED: Final = 5
"""Findings shown for one webhook."""


class Role(StrEnum):
    """The role of a webhook: genguard's own, between /intent and /mutate, or outside.

    A suspect is one in between that an unresolved finding names.
    """

    OWN = "genguard"
    SUSPECT = "suspect"
    BETWEEN = "between"
    OUTSIDE = "outside"


class NamedBy(msgspec.Struct, frozen=True):
    """An unresolved finding that names a webhook: how surely, and how often it happened."""

    id: str
    detector: str
    severity: Severity
    confidence: Confidence
    count: int
    shown: str = ""
    """The severity; "ending" where it only waits to be resolved, "repaired" where genguard repairs
    it at each write."""


class ListedWebhook(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook; `position` counts all mutating webhooks from 1.

    unchanged  writes that it was called for and that came through unchanged
    changed    writes that it changed as far as findings know, resolved ones too
    findings   the unresolved findings that name it, the surest and most frequent first
    changes    what it does, by kind, since this server detects
    """

    position: int
    configuration: str
    webhook: str
    role: Role
    phase: str
    reinvoked: bool
    rules: tuple[str, ...]
    depends_on: tuple[str, ...]
    failure_policy: str
    timeout_seconds: int
    unchanged: int
    changed: int
    findings: tuple[NamedBy, ...]
    changes: tuple[WebhookChanges, ...]


class RegisteredWrites(msgspec.Struct, frozen=True, rename="camel"):
    """The phases that the server has registered for some writes, and who else may change them."""

    writes: str
    phases: tuple[str, ...]
    changed_by: tuple[str, ...]
    is_refused: bool


class WebhooksPage(msgspec.Struct, frozen=True, rename="camel"):
    """The data of the page.

    policies    names of policies, which act before every registered webhook
    registered  the number of all registered mutating webhooks
    followed    what the server registers, with --registrations follow: a row for each operation
    reverted_by  who writes the registrations back; "" where nobody does
    """

    policies: tuple[str, ...]
    webhooks: tuple[ListedWebhook, ...]
    registered: int
    connected: bool
    followed: tuple[RegisteredWrites, ...] = ()
    reverted_by: str = ""


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the webhooks for a resource, or all if no resource is given."""
    check_parameters(query, _PARAMETERS)
    resource, _, group = query.get("resource", "").strip().partition(".")
    write = Matched(
        group=group,
        version=EVERYTHING,
        resource=resource,
        subresource=query.get("subresource", "").strip().lstrip("/"),
        operation=choice(query, "operation", OPERATIONS, "UPDATE"),
        namespace=query.get("namespace", "").strip(),
        name=EVERYTHING,
    )
    mutators = context.sources.mutators
    others = {other.name for other in mutators.others}
    findings = context.sources.detecting.findings()
    named = await context.queue.in_thread(lambda: _named(findings))
    links = [
        ListedWebhook(
            position=position,
            configuration=webhook.configuration,
            webhook=webhook.webhook,
            role=_role(webhook, known, is_between=webhook.name in others),
            failure_policy=webhook.failure_policy,
            timeout_seconds=webhook.timeout_seconds,
            unchanged=mutators.unchanged_calls(webhook.name),
            changed=sum(each.count for each, how in known if how is Confidence.CERTAIN),
            findings=tuple(_open(known, now)),
            changes=tuple(mutators.tally.of(webhook.name)),
            phase=webhook.phase,
            reinvoked=webhook.reinvoked,
            rules=tuple(_rule_text(rule) for rule in webhook.match.rules),
            depends_on=tuple(_depends(webhook, write)),
        )
        for position, webhook in enumerate(mutators.registered, 1)
        if not resource or _may_act(webhook, write)
        for known in (named.get(webhook.name, ()),)
    ]
    policies = [
        policy.name for policy in mutators.policies if not resource or _may_act(policy, write)
    ]
    found = context.sources.registrations()
    model = WebhooksPage(
        tuple(policies[:_MOST]),
        tuple(links[:_MOST]),
        len(mutators.registered),
        context.sources.connected,
        tuple(_followed(found, write if resource else None)),
        found.reverted_by,
    )
    return PageData(model, {"write": write, "named": bool(resource), "operations": OPERATIONS})


def _followed(found: Registrations, write: Matched | None) -> Iterator[RegisteredWrites]:
    """Yield what is registered for some writes, or for all."""
    wanted = write and Writes.named(write.group, write.resource, write.subresource, write.operation)
    for need in found.needs:
        group, resource, operation = need.writes
        if wanted is None or need.writes == wanted:
            named = f"{resource} of {group}" if group else resource
            yield RegisteredWrites(
                f"{operation} {named}",
                tuple(f"/{name}" for name in found.phases[need.writes]),
                need.changed_by,
                need.is_refused,
            )


def _may_act(registration: Registration, write: Matched) -> bool:
    """Whether it may act on such writes; without a namespace they may be in any, or in none."""
    somewhere = () if write.namespace else (structs.replace(write, namespace=EVERYTHING),)
    return any(registration.covers(each) is not Truth.FALSE for each in (write, *somewhere))


_Named = tuple[Finding, Confidence]


def _named(findings: Iterable[Finding]) -> Mapping[str, Sequence[_Named]]:
    """Return the findings that name a webhook, with the confidence, by the webhook's name."""
    found: dict[str, list[_Named]] = {}
    for finding in findings:
        for actor in finding.actors:
            if actor.type == "webhook":
                found.setdefault(actor.name, []).append((finding, actor.confidence))
    return found


def _role(registration: Registration, named: Sequence[_Named], *, is_between: bool) -> Role:
    if registration.phase:
        return Role.OWN
    if any(found.state != "resolved" for found, _ in named):
        return Role.SUSPECT
    return Role.BETWEEN if is_between else Role.OUTSIDE


def _open(named: Sequence[_Named], now: float) -> Iterator[NamedBy]:
    """Yield the unresolved findings, the surest and most frequent first."""
    is_open = [pair for pair in named if pair[0].state != "resolved"]
    is_open.sort(key=lambda pair: (pair[1].rank, -pair[0].count))
    for finding, how in is_open[:_MOST_NAMED]:
        shown = shown_severity(finding, now)
        yield NamedBy(finding.id, finding.detector, finding.severity, how, finding.count, shown)


def _rule_text(rule: Mapping[str, Any]) -> str:
    """Format a rule: `UPDATE deployments/status of apps`."""
    parts = (",".join(rule.get(key) or ()) for key in ("operations", "apiGroups", "resources"))
    operations, groups, resources = parts
    return f"{operations} {resources} of {groups or 'the core group'}"


def _depends(registration: Registration, write: Matched) -> Iterator[str]:
    labels = {NAME_LABEL: write.namespace} if write.namespace else {}
    if matches_labels(registration.match.namespaces, labels, complete=False) is not Truth.TRUE:
        yield "labels of the namespace"
    if registration.match.objects:
        yield "labels of the object"
    if registration.conditions:
        yield f"{len(registration.conditions)} matchConditions"
