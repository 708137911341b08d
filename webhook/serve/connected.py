"""The parts of a server that use a cluster; importing this loads the Kubernetes API client."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

import certs
from genguard.detection.policies import Policy
from genguard.detection.suspects import Registered, Suspects
from genguard.objects.fields import Fields
from genguard.review_setup import ReviewSetup
from genguard.versions import Versions
from webhook.alerts.pipeline import Lookup
from webhook.cluster.certificates import Certificates, RenewedSecret, decoded
from webhook.cluster.connection import (
    IN_CLUSTER,
    pod_name,
    server_identity,
    server_object,
    server_user,
)
from webhook.cluster.event import CreateEvent, StoreEvents
from webhook.cluster.facts import (
    ClusterFacts,
    ClusterListeners,
    follow_cluster,
)
from webhook.cluster.following import (
    Texts,
    follow_object,
    follow_objects,
    follow_texts,
    watching_versions,
)
from webhook.cluster.healing import Healing, Rechecking
from webhook.cluster.installation import OwnInstallation
from webhook.cluster.lease import LeaseElection
from webhook.cluster.reconcile import Reconciler
from webhook.cluster.registrations import Follower, News, RefusedWrites
from webhook.cluster.rest import Rest
from webhook.cluster.saved_findings import FindingsConfigMap
from webhook.cluster.standby import Pods, StandbyElection
from webhook.cluster.stored_objects import ObjectLookup, StoredObjects, event_creator
from webhook.cluster.token_review import TokenReviews
from webhook.election.leader import (
    LeaderElection,
    Leadership,
)
from webhook.server.access import Reviewer
from webhook.server.detecting import Detecting
from webhook.server.options import ServerOptions
from webhook.server.tls import (
    HeldPair,
    until_good,
)
from webhook.server.watching import Watching
from webhook.store.persister import Persister, Succession
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

__all__ = ["ConnectedCluster", "connect_cluster", "server_user"]

_CERTIFICATE_SECONDS: Final = 50.0
"""How long to wait for a certificate: less than the manifests give a pod to start, and enough to
renew one that cannot be used."""
_SERVICE: Final = "genguard"
_LEASE: Final = "genguard"


@dataclass(frozen=True, slots=True)
class ConnectedCluster:
    """A cluster that the server follows, and what the server does in it.

    namespace     of the server itself
    lease         elects one of the replicas
    create_event  creates a Kubernetes Event
    tell_store    creates the Events about the shared store
    tokens        asks the API server whose token it is, and what it may do
    exists        asks whether the API server has an object
    is_own        the server runs in a pod of this cluster
    news          says when webhooks or policies change
    supervisor    runs what works in the background
    """

    rest: Rest
    namespace: str
    lease: LeaderElection
    create_event: CreateEvent
    tell_store: Callable[[bool, str], Awaitable[None]]
    tokens: Reviewer
    exists: Lookup
    is_own: bool
    news: News
    supervisor: Supervisor

    @asynccontextmanager
    async def electing_by_pods(self, *, all_answer: bool) -> AsyncIterator[StandbyElection]:
        """Follow the pods of genguard while the context is entered; elect the leader.

        all_answer  every pod that the leader reaches is behind the Service, not the leader alone
        """
        pods = Pods(self.rest, self.namespace, pod_name(), all_answer=all_answer)
        identity = server_identity()
        lease = LeaseElection(self.rest, self.namespace, _LEASE, identity, succession=pods)
        async with pods.followed(self.supervisor):
            yield StandbyElection(lease, pods)

    @asynccontextmanager
    async def certificate(
        self, secret: str, options: ServerOptions, *, leadership: Leadership, metrics: Metrics
    ) -> AsyncIterator[HeldPair]:
        """Follow the certificate of a Secret, and renew it while this replica leads.

        The files of the options are served until the Secret has been read. Waits until there is a
        certificate to serve; raises CertificateError when none comes in time.
        """
        names = (*certs.installed_names(_SERVICE, self.namespace), *options.names)
        renewed = RenewedSecret(self.namespace, secret, names, options.lifetime)
        renewing = Reconciler(
            "renewal of the certificate",
            Certificates(self.rest, renewed).step,
            leadership,
            errors=(certs.CertificateError,),
        )
        metrics.gauge("genguard_certificate_rotation_failing", lambda: float(renewing.is_failing))
        first = None
        if options.cert_file is not None and options.key_file is not None:
            first = certs.PairFiles.beside(options.cert_file, options.key_file)
        held = HeldPair(f"{secret} -n {self.namespace}", first)

        def seen(found: Fields | None) -> None:
            if found is not None:
                data = msgspec.json.decode(found.get("data", b"null"))
                held.take(decoded({"data": data}))
                renewing.wake()

        place = self.namespace, secret
        followed = follow_object(self.rest, "secrets", place, seen, self.supervisor)
        async with followed, renewing.running(self.supervisor):
            await until_good(held, _CERTIFICATE_SECONDS)
            yield held

    @asynccontextmanager
    async def saved_findings(
        self,
        name: str,
        detecting: Detecting,
        *,
        leadership: Leadership,
        metrics: Metrics,
        stands_by: bool = False,
    ) -> AsyncIterator[None]:
        """Restore the findings of a ConfigMap, and save them there while the context is entered.

        stands_by  while another replica leads, show what it has saved
        """
        place = FindingsConfigMap(self.rest, self.namespace, name)
        show = detecting.show if stands_by else None
        succession = Succession(leadership, detecting.take_over, show)
        persister = Persister(detecting.detection.ledger, place, succession)
        await persister.load()
        async with persister.running(metrics, self.supervisor):
            yield

    @asynccontextmanager
    async def rules(
        self, namespace: str, name: str, take: Callable[[Texts | None], None]
    ) -> AsyncIterator[None]:
        """Use the rules of a ConfigMap while the context is entered; "": the own namespace."""
        place = namespace or self.namespace, name
        async with follow_texts(self.rest, place, take, self.supervisor):
            yield

    def judging_versions(
        self, setup: ReviewSetup, detecting: Detecting, resources: Iterable[str]
    ) -> AbstractAsyncContextManager[None]:
        """Judge versions of what is sent to no webhook, and of these, while entered."""
        versions = Versions(lambda: setup.dependencies.engine, detecting.see_version)
        return watching_versions(self.rest, resources, versions, self.supervisor)

    @asynccontextmanager
    async def followed_registrations(
        self, suspects: Suspects, leadership: Leadership, metrics: Metrics, *, enforcing: bool
    ) -> AsyncIterator[Follower]:
        """Keep the registrations as narrow as what they can show while the context is entered."""
        refused = RefusedWrites(self.rest, self.news.tell)
        follower = Follower(
            self.rest,
            self.news,
            suspects,
            leadership,
            enforcing=enforcing,
            refused=refused.is_refused,
        )
        metrics.counts("genguard_registered_writes", follower.counts)
        metrics.gauge(
            "genguard_registrations_reverted",
            lambda: float(bool(follower.registered.reverted_by)),
        )
        following = Reconciler("registrations that follow need", follower.step)
        self.news.changed = following.wake
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(following.running(self.supervisor))
            if not enforcing:  # enforcing, each write has its /mutate
                looking = Reconciler("look at refused writes", refused.step, leadership)
                await stack.enter_async_context(looking.running(self.supervisor))
            yield follower

    @asynccontextmanager
    async def installation(self) -> AsyncIterator[OwnInstallation]:
        """Read how this server was installed while the context is entered."""
        found = OwnInstallation(self.rest, self.namespace)
        reading = Reconciler("look at the own installation", found.read)
        async with reading.running(self.supervisor):
            yield found

    @asynccontextmanager
    async def rechecks(
        self,
        detecting: Detecting,
        leader: Leadership | None,
        metrics: Metrics,
        lost_at: Callable[[], float] | None = None,
        *,
        heals: bool = False,
    ) -> AsyncIterator[None]:
        """Read damaged objects again and again, and heal them, while the context is entered.

        leader   who reads damaged objects, and heals them; None: this replica, which heals nothing
        heals    whether damaged objects are healed
        lost_at  when a replica that answered was lost, in monotonic seconds
        """
        objects = StoredObjects(self.rest)
        healing = None
        if heals and leader is not None:
            healing = Healing(objects, leader, self.create_event)
            metrics.counts("genguard_heals_total", healing.counts)
        rechecking = Rechecking(
            detecting, objects, healing, supervisor=self.supervisor, lost_at=lost_at
        )
        damaged = Reconciler("look at damaged objects", rechecking.recheck, leader)
        async with damaged.running(self.supervisor):
            yield


@asynccontextmanager
async def connect_cluster(
    kubeconfig: str,
    setup: ReviewSetup,
    suspects: Suspects,
    watching: Watching,
    *,
    metrics: Metrics,
    supervisor: Supervisor,
) -> AsyncIterator[ConnectedCluster]:
    """Follow a cluster while the context is entered: its version, definitions and webhooks.

    Watched objects are followed as well. Raises NoClusterError.
    """

    def on_facts(facts: ClusterFacts) -> None:
        for resource, reason in setup.learn(*facts).items():
            about = {"resource": resource, "reason": reason}
            LOGGER.warning("status is not flipped", extra={"facts": about})

    news = News()

    def on_webhooks(found: tuple[Registered, ...]) -> None:
        suspects.learn(found)
        news.learn("webhooks")

    def on_policies(found: tuple[Policy, ...]) -> None:
        suspects.learn_policies(found)
        news.learn("policies")

    learners = ClusterListeners(on_facts, on_webhooks, on_policies)
    async with follow_cluster(kubeconfig, learners, metrics, supervisor) as api:
        rest = Rest(api)
        async with follow_objects(rest, tuple(watching.states()), watching, supervisor):
            server = server_object(kubeconfig)
            create_event = event_creator(rest)
            yield ConnectedCluster(
                rest,
                server["namespace"],
                LeaseElection(rest, server["namespace"], _LEASE, server_identity()),
                create_event,
                StoreEvents(create_event, server).tell,
                TokenReviews(rest),
                ObjectLookup(rest).exists,
                kubeconfig == IN_CLUSTER,
                news,
                supervisor,
            )
