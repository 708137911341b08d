"""The parts of a server that use a cluster; importing this loads the Kubernetes API client."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import certs
from genguard.versions import Versions
from webhook.cluster.certificates import Certificates
from webhook.cluster.cluster_watch import watch_cluster, watching_versions
from webhook.cluster.connection import (
    IN_CLUSTER,
    connected,
    default_namespace,
    review_token,
    server_identity,
)
from webhook.cluster.discovery import collection_path
from webhook.cluster.healing import Healing, Rechecking
from webhook.cluster.installation import enforcing_command
from webhook.cluster.lease import LeaseElection
from webhook.cluster.reconcile import NEVER, Reconciler
from webhook.cluster.registrations import Follower, RefusedWrites
from webhook.cluster.rest import Rest, if_there
from webhook.cluster.saved_findings import FindingsConfigMap
from webhook.cluster.standby import StandbyElection
from webhook.cluster.stored_objects import StoredObjects
from webhook.cluster.watch import Change, ChangeKind, Collection, informing
from webhook.election.leader import Leadership
from webhook.server.certificate import files_of
from webhook.server.detecting import Detecting
from webhook.server.tls import HeldPair, until_good
from webhook.server.watching import Watching
from webhook.store.persister import Persister
from webhook.tasks.threads import in_thread

if TYPE_CHECKING:
    from webhook.serve.app import App

_CERTIFICATE_SECONDS: Final = 50.0
"""How long to wait for a certificate: less than the manifests give a pod to start, and enough to
renew one that cannot be used."""
_RULES_SECONDS: Final = 5.0
"""Between two looks at the ConfigMap of the rules."""
_NAME: Final = "genguard"
"""Of the Service and of the Lease."""


class ConnectedCluster:
    """A cluster that the server of `app` watches, and what the server does there until it ends.

    lease   elects one of the replicas
    objects reads stored objects
    is_own  the server runs in a pod of this cluster
    """

    def __init__(self, app: "App", rest: Rest, kubeconfig: str) -> None:
        self._app: Final = app
        self.rest: Final = rest
        self._namespace: Final = default_namespace(kubeconfig)
        self.lease: Final = LeaseElection(rest, self._namespace, _NAME, server_identity())
        self.review_token: Final = partial(review_token, rest)
        self.objects: Final = StoredObjects(rest)
        self.is_own: Final = kubeconfig == IN_CLUSTER

    async def _enter(self, works: AbstractAsyncContextManager[None]) -> None:
        await self._app.stack.enter_async_context(works)

    async def _run(self, reconciler: Reconciler) -> None:
        await self._enter(reconciler.running(self._app.supervisor))

    async def watch(self) -> None:
        """Watch its version, definitions, webhooks and watched objects, and the rules."""
        app, rest = self._app, self.rest
        metrics, supervisor, watching = app.metrics, app.supervisor, app.watching
        await self._enter(
            watch_cluster(
                rest,
                app.setup,
                app.mutators,
                coverage=app.coverage,
                metrics=metrics,
                supervisor=supervisor,
            )
        )
        for state in tuple(watching.states()):
            found = Collection(rest, partial(collection_path, rest, state))
            lost = partial(watching.current, state, is_current=False)
            on_change = partial(_show, watching, state)
            informed = informing(f"watch {state}", found, on_change, supervisor, on_trouble=lost)
            await self._enter(informed)
        location = app.rules.location
        if location is not None and location.configmap:
            where = location.namespace or self._namespace
            await self._take_rules(f"/api/v1/namespaces/{where}/configmaps/{location.configmap}")

    async def _take_rules(self, path: str) -> None:
        """Use the rules that a ConfigMap has, now and after each change."""
        used: list[Any] = []

        async def read() -> float:
            found = await if_there(self.rest.get(path))
            texts = None if found is None else found.get("data") or {}
            if used != [texts]:
                await in_thread(self._app.rules.take, texts)
                used[:] = [texts]
            return _RULES_SECONDS

        await self._run(Reconciler("rules", read))

    def elect_by_pods(self) -> StandbyElection:
        """The election of a leader that also says which pods are behind the Service."""
        # With a shared store every pod that the leader reaches answers, not the leader alone.
        all_answer = self._app.replicas is not None
        return StandbyElection(
            self.rest, self._namespace, _NAME, server_identity(), all_answer=all_answer
        )

    async def certificate(self, secret: str, leadership: Leadership) -> HeldPair:
        """Serve the certificate of a Secret, and renew it while this replica leads.

        The files of the flags are served until the Secret has been read. Waits until there is a
        certificate to serve; raises CertificateError when none comes in time.
        """
        settings = self._app.settings
        names = certs.installed_names(_NAME, self._namespace)
        names = (*names, "localhost", *settings.dns_name)
        lifetime = timedelta(seconds=settings.cert_lifetime)
        held = HeldPair(f"{secret} -n {self._namespace}", files_of(settings))
        renewed = Certificates(
            self.rest,
            self._namespace,
            secret,
            names,
            lifetime,
            leadership=leadership,
            seen=held.take,
        )
        renewing = Reconciler(
            "renewal of the certificate", renewed.step, errors=(certs.CertificateError,)
        )
        self._app.metrics.gauge(
            "genguard_certificate_rotation_failing",
            lambda: float(renewing.is_failing and leadership.is_leader),
        )
        await self._run(renewing)
        await until_good(held, _CERTIFICATE_SECONDS)
        return held

    async def save_findings(self, name: str, detecting: Detecting, leadership: Leadership) -> None:
        """Restore the findings of a ConfigMap, and save them there."""
        settings = self._app.settings
        show = detecting.show if settings.standby or settings.shares else None
        storage = FindingsConfigMap(self.rest, self._namespace, name)
        ledger = detecting.detection.ledger
        persister = Persister(ledger, storage, leadership, detecting.take_over, show)
        await persister.load()
        await self._enter(persister.running(self._app.metrics, self._app.supervisor))

    async def look_at(self, detecting: Detecting, fights: Iterable[str]) -> None:
        """Read damaged objects again and again, and heal them; examine versions of `fights`, too.

        Without an election this replica reads them, and heals nothing.
        """
        app, leader, healing = self._app, self._app.leader, None
        if app.settings.heal and leader is not None:
            healing = Healing(self.objects, leader)
            app.metrics.counts("genguard_heals_total", healing.counts)
        rechecking = Rechecking(
            detecting.detection.ledger, self.objects, healing, supervisor=app.supervisor
        )
        await self._run(Reconciler("look at damaged objects", rechecking.recheck, leader))
        versions = Versions(lambda: app.setup.dependencies.engine, detecting.see_version)
        await self._enter(
            watching_versions(self.rest, fights, versions, app.coverage, app.supervisor)
        )

    async def follow_registrations(self, leadership: Leadership) -> Follower:
        """Keep the registrations as narrow as what they can show."""
        app, refused = self._app, RefusedWrites(self.rest)
        follower = Follower(
            self.rest,
            app.mutators,
            leadership,
            enforcing=not app.settings.audit_only,
            refused=refused.is_refused,
            custom=lambda: app.coverage.custom,
            always=bool(app.settings.flip_status or app.setup.dependencies.generation_rules),
        )
        app.metrics.counts("genguard_registered_writes", follower.counts)
        reverted = "genguard_registrations_reverted"
        app.metrics.gauge(reverted, lambda: float(bool(follower.registered.reverted_by)))
        registering = Reconciler("registrations that follow need", follower.step)
        app.mutators.on_change = refused.changed = registering.wake
        await self._run(registering)
        await self._run(Reconciler("look at refused writes", refused.step, leadership))
        return follower

    async def enforcing(self) -> Callable[[], str]:
        """Return what says the command that makes it enforcing; "" as long as it is not known."""
        known = [""]

        async def read() -> float:
            known[0] = await enforcing_command(self.rest, self._namespace)
            return NEVER

        await self._run(Reconciler("look at the own installation", read))
        return lambda: known[0]


async def connect_cluster(app: "App", kubeconfig: str) -> ConnectedCluster:
    """Connect to a cluster, and watch it. Raises NoClusterError."""
    rest = Rest(await app.stack.enter_async_context(connected(kubeconfig)))
    found = ConnectedCluster(app, rest, kubeconfig)
    await found.watch()
    return found


def _show(watching: Watching, resource: str, change: Change) -> Awaitable[None] | None:
    match change.what:
        case ChangeKind.SEEN if change.is_cut:
            watching.leave_out(resource, change.uid)  # nested too deep
        case ChangeKind.SEEN:
            return watching.seen(resource, change.object)
        case ChangeKind.GONE:
            watching.gone(change.uid)
        case ChangeKind.CAUGHT_UP:
            watching.current(resource, is_current=True)
    return None
