"""`genguard publish-status`: keep the conditions Ready and Settled of custom resources."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from genguard.objects.served import Served
from genguard.status.assessment import AskRules
from genguard.status.published import LABEL, without_published
from genguard.status.targets import RequestedTarget, WatchTarget, resolve_targets
from webhook.cli.errors import carry_out
from webhook.cli.object_watch import ObjectWatch
from webhook.cli.options import ALL_NAMESPACES, NAMESPACE, Access, asks_cluster, verb
from webhook.cli.rules import RULES, rule_evaluator
from webhook.cluster.connection import server_identity
from webhook.cluster.discovery import discover
from webhook.cluster.lease import LeaseElection
from webhook.cluster.reconcile import Reconciler
from webhook.cluster.rest import Rest
from webhook.cluster.status_publisher import StatusPublisher
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER, logging_to_stderr

LEASE: Final = "genguard-publish-status"
_TICK: Final = 5.0
"""Seconds after which time alone may have changed a condition."""
_APART: Final = 1.0
"""Seconds between two looks: each evaluates every object that has opted in."""


@verb()
@NAMESPACE
@ALL_NAMESPACES
@click.option("--lease-namespace", metavar="NAME")
@RULES
@asks_cluster
@click.argument("kinds", nargs=-1, required=True, metavar="KIND...")
def publish_status(*, kinds: tuple[str, ...], rules: Path | None, **flags: Any) -> None:
    """Write conditions Ready and Settled into custom resources that opt in, until interrupted."""
    with rule_evaluator(rules) as ask_rules, logging_to_stderr():
        carry_out(_run(kinds, ask_rules, **flags), is_endless=True)


async def _run(
    kinds: Sequence[str],
    ask_rules: AskRules,
    *,
    access: Access,
    namespace: str | None,
    all_namespaces: bool,
    lease_namespace: str | None,
) -> None:
    asked = [RequestedTarget(kind, "") for kind in kinds]
    within = "" if all_namespaces else access.namespace(namespace)
    async with access.connected() as rest:
        served = await discover(rest)
        targets = resolve_targets(asked, served, within, f"{LABEL}=true")
        for target in targets:
            _ = await _publisher(rest, [target])  # says at once what can never be published
        where = access.namespace(lease_namespace)
        election = LeaseElection(rest, where, LEASE, server_identity())
        supervisor = Supervisor()

        async def publish() -> float:
            await _lead(rest, served, targets, election, ask_rules=ask_rules, supervisor=supervisor)
            return 0.0

        publishing = Reconciler("publishing", publish, election)
        async with election.taking_part(supervisor), publishing.running(supervisor):
            await asyncio.Event().wait()


async def _publisher(rest: Rest, targets: Sequence[WatchTarget]) -> StatusPublisher:
    publisher = StatusPublisher(rest)
    for target in targets:
        await publisher.learn(target.served)
    return publisher


async def _lead(
    rest: Rest,
    served: Sequence[Served],
    targets: Sequence[WatchTarget],
    election: LeaseElection,
    *,
    ask_rules: AskRules,
    supervisor: Supervisor,
) -> None:
    """Watch the objects and publish, as long as this replica leads."""
    publisher = await _publisher(rest, targets)

    def on_seen(target: WatchTarget, uid: str, document: dict[str, Any]) -> dict[str, Any]:
        if target in targets:
            publisher.see(target.served, uid, document)
        return dict(without_published(document))

    async with ObjectWatch(
        rest, served, targets, _tell, ask_rules=ask_rules, on_seen=on_seen
    ) as objects:
        while election.is_leader:
            await asyncio.sleep(_APART)
            snapshot = await objects.next_snapshot(_TICK)
            if snapshot is None or snapshot.unread:
                continue  # one without what may not be read could be wrong; the log says what
            await publisher.keep_only(frozenset[str]().union(*snapshot.there.values()))
            for node in (node for root in snapshot.roots for node in root.walk()):
                if not election.is_leader:
                    return
                with supervisor.guard("published objects"):
                    await publisher.publish(node.assessment)


def _tell(text: str) -> None:
    LOGGER.warning("not watched", extra={"fields": {"reason": text}})
