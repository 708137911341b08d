"""The parts of a server that use a cluster; importing this loads the Kubernetes API client."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

import certs
from genguard.detection.matching import Policy
from genguard.detection.suspects import Registered, Suspects
from genguard.generation.custom import CustomResource
from genguard.objects.fields import Fields
from genguard.review_setup import ReviewSetup
from genguard.versions import Versions
from webhook.cluster.certificates import Certificates, decoded
from webhook.cluster.connection import (
    IN_CLUSTER,
    TokenReviews,
    default_namespace,
    server_identity,
)
from webhook.cluster.discovery import collection_path
from webhook.cluster.following import (
    ClusterListeners,
    Texts,
    follow_cluster,
    follow_object,
    follow_texts,
    watching_versions,
)
from webhook.cluster.healing import Healing, Rechecking
from webhook.cluster.installation import enforcing_command
from webhook.cluster.lease import LeaseElection
from webhook.cluster.reconcile import NEVER, Reconciler
from webhook.cluster.registrations import Follower, News, RefusedWrites
from webhook.cluster.rest import Rest
from webhook.cluster.saved_findings import FindingsConfigMap
from webhook.cluster.standby import StandbyElection
from webhook.cluster.stored_objects import StoredObjects, event_creator
from webhook.cluster.watch import Change, ChangeKind, Collection, informing
from webhook.election.leader import Leadership
from webhook.server.certificate import files_of
from webhook.server.detecting import Detecting
from webhook.server.settings import Settings
from webhook.server.tls import HeldPair, until_good
from webhook.server.watching import Watching
from webhook.store.persister import Persister, Succession
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from webhook.serve.app import App

_CERTIFICATE_SECONDS: Final = 50.0
"""How long to wait for a certificate: less than the manifests give a pod to start, and enough to
renew one that cannot be used."""
_NAME: Final = "genguard"
"""Of the Service and of the Lease."""


class ConnectedCluster:
    """A cluster that the server follows, and what the server does in it until `stack` is closed.

    lease         elects one of the replicas
    create_event  creates a Kubernetes Event
    tokens        asks the API server whose token it is, and what it may do
    exists        asks whether the API server has an object
    is_own        the server runs in a pod of this cluster
    """

    def __init__(
        self,
        stack: AsyncExitStack,
        rest: Rest,
        kubeconfig: str,
        *,
        news: News,
        metrics: Metrics,
        supervisor: Supervisor,
    ) -> None:
        self._stack: Final = stack
        self._rest: Final = rest
        self._metrics: Final = metrics
        self._supervisor: Final = supervisor
        self._namespace: Final = default_namespace(kubeconfig)
        self._news: Final = news
        self.lease: Final = LeaseElection(rest, self._namespace, _NAME, server_identity())
        self.create_event: Final = event_creator(rest)
        self.tokens: Final = TokenReviews(rest)
        self.exists: Final = StoredObjects(rest).exists
        self.is_own: Final = kubeconfig == IN_CLUSTER

    async def _enter(self, works: AbstractAsyncContextManager[None]) -> None:
        await self._stack.enter_async_context(works)

    async def _run(self, reconciler: Reconciler) -> None:
        await self._enter(reconciler.running(self._supervisor))

    async def elect_by_pods(self, *, all_answer: bool) -> StandbyElection:
        """Follow the pods of genguard, and elect the leader among them.

        all_answer  every pod that the leader reaches is behind the Service, not the leader alone
        """
        election = StandbyElection(
            self._rest, self._namespace, _NAME, server_identity(), all_answer=all_answer
        )
        await self._enter(election.followed(self._supervisor))
        return election

    async def certificate(
        self, secret: str, settings: Settings, leadership: Leadership
    ) -> HeldPair:
        """Follow the certificate of a Secret, and renew it while this replica leads.

        The files of the flags are served until the Secret has been read. Waits until there is a
        certificate to serve; raises CertificateError when none comes in time.
        """
        names = certs.installed_names(_NAME, self._namespace)
        names = (*names, "localhost", *settings.dns_name)
        lifetime = timedelta(seconds=settings.cert_lifetime)
        renewed = Certificates(self._rest, self._namespace, secret, names, lifetime)
        renewing = Reconciler(
            "renewal of the certificate",
            renewed.step,
            leadership,
            errors=(certs.CertificateError,),
        )
        failing = "genguard_certificate_rotation_failing"
        self._metrics.gauge(failing, lambda: float(renewing.is_failing))
        held = HeldPair(f"{secret} -n {self._namespace}", files_of(settings))

        def seen(found: Fields | None) -> None:
            if found is not None:
                data = msgspec.json.decode(found.get("data", b"null"))
                held.take(decoded({"data": data}))
                renewing.wake()

        place = self._namespace, secret
        await self._enter(follow_object(self._rest, "secrets", place, seen, self._supervisor))
        await self._run(renewing)
        await until_good(held, _CERTIFICATE_SECONDS)
        return held

    async def save_findings(
        self, name: str, detecting: Detecting, leadership: Leadership, *, stands_by: bool = False
    ) -> None:
        """Restore the findings of a ConfigMap, and save them there.

        stands_by  while another replica leads, show what it has saved
        """
        place = FindingsConfigMap(self._rest, self._namespace, name)
        show = detecting.show if stands_by else None
        succession = Succession(leadership, detecting.take_over, show)
        persister = Persister(detecting.detection.ledger, place, succession)
        await persister.load()
        await self._enter(persister.running(self._metrics, self._supervisor))

    async def follow_rules(
        self, namespace: str, name: str, take: Callable[[Texts | None], None]
    ) -> None:
        """Use the rules of a ConfigMap; "": of the own namespace."""
        place = namespace or self._namespace, name
        await self._enter(follow_texts(self._rest, place, take, self._supervisor))

    async def judge_versions(
        self, setup: ReviewSetup, detecting: Detecting, resources: Iterable[str]
    ) -> None:
        """Judge versions of what is sent to no webhook, and of these resources."""
        versions = Versions(lambda: setup.dependencies.engine, detecting.see_version)
        await self._enter(watching_versions(self._rest, resources, versions, self._supervisor))

    async def follow_registrations(
        self, suspects: Suspects, leadership: Leadership, *, enforcing: bool
    ) -> Follower:
        """Keep the registrations as narrow as what they can show."""
        refused = RefusedWrites(self._rest)
        follower = Follower(
            self._rest,
            self._news,
            suspects,
            leadership,
            enforcing=enforcing,
            refused=refused.is_refused,
        )
        self._metrics.counts("genguard_registered_writes", follower.counts)
        reverted = "genguard_registrations_reverted"
        self._metrics.gauge(reverted, lambda: float(bool(follower.registered.reverted_by)))
        following = Reconciler("registrations that follow need", follower.step)
        self._news.changed = refused.changed = following.wake
        await self._run(following)
        if not enforcing:  # enforcing, each write has its /mutate
            await self._run(Reconciler("look at refused writes", refused.step, leadership))
        return follower

    async def enforcing(self) -> Callable[[], str]:
        """Return what says the command that makes it enforcing; "" as long as it is not known."""
        known = [""]

        async def read() -> float:
            known[0] = await enforcing_command(self._rest, self._namespace)
            return NEVER

        await self._run(Reconciler("look at the own installation", read))
        return lambda: known[0]

    async def recheck(
        self,
        detecting: Detecting,
        leader: Leadership | None,
        lost_at: Callable[[], float] | None = None,
        *,
        heals: bool = False,
    ) -> None:
        """Read damaged objects again and again, and heal them.

        leader   who reads damaged objects, and heals them; None: this replica, which heals nothing
        heals    whether damaged objects are healed
        lost_at  when a replica that answered was lost, in monotonic seconds
        """
        objects = StoredObjects(self._rest)
        healing = None
        if heals and leader is not None:
            healing = Healing(objects, leader, self.create_event)
            self._metrics.counts("genguard_heals_total", healing.counts)
        ledger = detecting.detection.ledger
        rechecking = Rechecking(
            ledger, objects, healing, supervisor=self._supervisor, lost_at=lost_at
        )
        await self._run(Reconciler("look at damaged objects", rechecking.recheck, leader))


async def connect_cluster(app: "App", stack: AsyncExitStack, kubeconfig: str) -> ConnectedCluster:
    """Follow a cluster: its version, definitions, webhooks and watched objects.

    Raises NoClusterError.
    """
    news = News()

    def on_facts(version: str, custom: tuple[CustomResource, ...]) -> None:
        for resource, reason in app.setup.learn(version, custom).items():
            about = {"resource": resource, "reason": reason}
            LOGGER.warning("status is not flipped", extra={"facts": about})

    def on_webhooks(found: tuple[Registered, ...]) -> None:
        app.suspects.learn(found)
        news.learn("webhooks")

    def on_policies(found: tuple[Policy, ...]) -> None:
        app.suspects.learn_policies(found)
        news.learn("policies")

    learners = ClusterListeners(on_facts, on_webhooks, on_policies)
    metrics, supervisor, watching = app.metrics, app.supervisor, app.watching
    followed = follow_cluster(kubeconfig, learners, metrics, supervisor)
    rest = Rest(await stack.enter_async_context(followed))
    for one in tuple(watching.states()):
        found = Collection(rest, partial(collection_path, rest, one))
        lost = partial(watching.current, one, is_current=False)
        on_change = partial(_show, watching, one)
        watched = informing(f"watch {one}", found, on_change, supervisor, lost)
        await stack.enter_async_context(watched)
    return ConnectedCluster(
        stack, rest, kubeconfig, news=news, metrics=metrics, supervisor=supervisor
    )


def _show(watching: Watching, resource: str, change: Change) -> None:
    match change.what:
        case ChangeKind.SEEN if change.is_cut:
            watching.unreadable(resource, change.uid)
        case ChangeKind.SEEN:
            watching.seen(resource, change.object)
        case ChangeKind.GONE:
            watching.gone(change.uid)
        case ChangeKind.CAUGHT_UP:
            watching.current(resource, is_current=True)
