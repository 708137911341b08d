"""Connects the parts of the server of `genguard serve`: read `App` from top to bottom.

What needs a cluster is in connected.py, which loads the client of the Kubernetes API.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from genguard.detection.detection import Detection
from genguard.detection.mutators import Mutators
from genguard.detection.questions.numbers import HOW
from genguard.detection.values import Shows
from genguard.review_setup import ReviewSetup
from genguard.status.tracking import Tracking
from webhook.alerts.alertmanager import AlertmanagerSink
from webhook.alerts.change import Sink, log_changes
from webhook.alerts.pipeline import Verification
from webhook.cel.evaluator import Evaluator
from webhook.cluster.coverage import Coverage
from webhook.cluster.event import KubeEventSink
from webhook.dashboard.page import Forwarding, Sources
from webhook.dashboard.routes import Dashboard
from webhook.files.rules import ServerRules, parse_location
from webhook.server.access import Access, ReviewedTokens, TokenFile, is_loopback, within_host
from webhook.server.admission import AdmissionHandler
from webhook.server.collectors import TerminatingMetrics, TrackedMetrics
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService, about
from webhook.server.options import Limits, fit, raise_limit
from webhook.server.recorder import Recorder
from webhook.server.settings import LOOPBACK, Settings
from webhook.server.watching import Watching, parse_watched
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store
from webhook.store.persister import CORRUPT, kept_in_file
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER, logging_to_stderr
from webhook.telemetry.metrics import Counts, Metrics
from webhook.telemetry.spans import exporting_spans

if TYPE_CHECKING:
    from webhook.cluster.lease import LeaseElection
    from webhook.cluster.standby import StandbyElection
    from webhook.serve.connected import ConnectedCluster
    from webhook.store.replicas import Replicas


class App:
    """A server whose parts are attributes. What works beside it runs until `stack` is closed.

    cluster   None without --kubeconfig
    replicas  what replicas share; None without a shared store
    leader    the election of a leader by a Lease; None where none is needed
    pods      the same, where it also says which pods are behind the Service
    """

    service: AdmissionService

    def __init__(self, settings: Settings, supervisor: Supervisor, stack: AsyncExitStack) -> None:
        """Make the parts that stand alone; see `build` for what it raises."""
        self.settings: Final = settings
        self.supervisor: Final = supervisor
        self.stack: Final = stack
        review_options = settings.review_options()
        self._watched: Final = parse_watched(settings.watch)
        self._fights: Final = parse_watched(settings.watch_fights, "--watch-fights")
        self._store: Final = parse_store(settings.store)
        if isinstance(self._store, ValkeyAddress):
            for file in (self._store.password_file, self._store.cafile):
                if file is not None and not file.is_file():
                    raise BadStoreError(f"--store valkey://…: {file}: there is no such file")
        stack.enter_context(logging_to_stderr(settings.log_level))
        self._limits: Final = fit(Limits(), raise_limit())

        own_user = ""
        if settings.kubeconfig is not None:
            from webhook.cluster.connection import server_user  # noqa: PLC0415 - it loads for 0.5 s

            own_user = server_user(settings.kubeconfig)

        # What is found in writes.
        self._evaluator: Final = stack.enter_context(Evaluator())
        self.mutators: Final = Mutators(conditions=self._evaluator)
        self.coverage: Final = Coverage()
        self.detection: Final = Detection(
            self.mutators,
            own_user=own_user,
            shows=Shows.ALL if settings.show_values else Shows.PLAIN,
        )
        self.rules: Final = ServerRules(self._evaluator, parse_location(settings.rules))
        tracking = Tracking(most_summaries=settings.summary_metrics)
        self.watching: Final = Watching(self._watched, tracking, self.rules.evaluator, supervisor)

        # How reviews are examined; with a shared store, by what other replicas have seen as well.
        self.replicas: Replicas | None = None
        if isinstance(self._store, ValkeyAddress):
            from webhook.store import replicas  # noqa: PLC0415 - it loads valkey-py

            self.replicas = replicas.Replicas(self._store, self.detection, review_options.restored)
        intents = None if self.replicas is None else self.replicas.intents
        self.setup: Final = ReviewSetup(review_options, intents)
        self.metrics: Final = self._counted()
        self.cluster: ConnectedCluster | None = None
        self.leader: LeaseElection | None = None
        self.pods: StandbyElection | None = None

    async def connect(self) -> None:
        """Connect the cluster, the store and the server with these parts."""
        settings, enter = self.settings, self.stack.enter_async_context
        if settings.kubeconfig is not None:
            from webhook.serve.connected import connect_cluster  # noqa: PLC0415 - loads for 0.5 s

            self.cluster = await connect_cluster(self, settings.kubeconfig)
        access = self._access()
        await self._elect()
        self.setup.describe_server(self._describe)
        cluster, leader, replicas = self.cluster, self.leader, self.replicas
        pair = None
        if cluster is not None and leader is not None and settings.cert_secret is not None:
            pair = await cluster.certificate(settings.cert_secret, leader)

        # Who makes findings, logs them and sends alerts; the others show what it has saved.
        finder = leader if replicas is not None else self.pods
        detecting = Detecting(
            self.detection,
            self._sinks(),
            self.watching.tracking,
            None if replicas is None else replicas.observations,
            active=finder,
            supervisor=self.supervisor,
        )
        await self._keep_findings(detecting)
        if replicas is not None and leader is not None:
            await enter(replicas.joined(leader, self.metrics, self.supervisor))

        # The server.
        shown = Dashboard(await self._sources(detecting))
        registry = self.metrics.registry
        registry.register(TrackedMetrics(self.watching.tracking, self.setup.knows))
        if self._watched:
            registry.register(TerminatingMetrics(self.watching, settings.object_metrics))
        standby = self.pods if replicas is None else None
        handler = AdmissionHandler(
            lambda: self.setup.dependencies,
            self.metrics,
            detecting,
            self._limits,
            Recorder(settings.record) if settings.record else None,
            None if replicas is None else replicas.intents,
            await enter(exporting_spans(self.metrics)),
            None if standby is None else lambda: standby.keeps_clients,
        )
        self.service = AdmissionService(
            settings, handler, pages=shown, access=access, supervisor=self.supervisor, pair=pair
        )

    def _counted(self) -> Metrics:
        """What reviews, rules and detection count, for Prometheus."""
        metrics = Metrics(self.setup.knows)
        self.supervisor.measured(metrics)
        metrics.gauge("genguard_costly_conditions", lambda: float(self._evaluator.costly))
        metrics.gauge("genguard_rules_refused", lambda: float(self.rules.is_refused))
        metrics.counts("genguard_remembered_dropped_total", self.setup.dropped)
        metrics.counts("genguard_unchanged_status_writes_total", self._unchanged_status_writes)
        metrics.counts("genguard_observed_generation_total", self._reporting)
        if self.settings.flip_status:
            not_flipped = self.setup.not_flipped
            metrics.gauge("genguard_flip_status_refused", lambda: float(len(not_flipped())))
        return metrics

    def _unchanged_status_writes(self) -> Counts:
        """How often an update of a status changed nothing, by the label of its resource."""
        found: Counter[tuple[str, ...]] = Counter()
        for kind, count in list(self.detection.unchanged_status_writes.items()):
            found[self.metrics.resource_label(kind.group, kind.resource),] += count
        return found.items()

    def _reporting(self) -> Counts:
        """How controllers handle observedGeneration, by user, label of the resource and how."""
        found: Counter[tuple[str, ...]] = Counter()
        for reporting in self.detection.reporting.writers():
            for how in HOW:
                label = self.metrics.resource_label(reporting.group, reporting.resource)
                found[reporting.user, label, how] += getattr(reporting, how)
        return [(names, count) for names, count in found.items() if count]

    async def _elect(self) -> None:
        """Take part in the election of a leader, where one is needed."""
        if self.cluster is None or not self.settings.needs_leader:
            return
        if self.settings.standby:
            self.pods = self.cluster.elect_by_pods()
        leader = self.leader = self.pods or self.cluster.lease
        self.metrics.gauge("genguard_leader", lambda: float(leader.is_leader))
        await self.stack.enter_async_context(leader.taking_part(self.supervisor))

    def _describe(self) -> Mapping[str, str]:
        """What this server says of itself to a probe; with --standby also which pod is active."""
        store = "memory"
        if self.replicas is not None:
            store = "valkey" if self.replicas.store.up else "valkey-lost"
        elif isinstance(self._store, Path):
            store = "sqlite-corrupt" if self.supervisor.left_out.get(CORRUPT) else "sqlite"
        seen, failing = self.detection.completeness, self.supervisor.failing()
        said = about(self.metrics, store, seen, self._evaluator.costly, failing)
        if self.pods is None:
            return said
        follower = "standby" if self.replicas is None else "replica"
        role = "active" if self.pods.is_leader else follower
        return {**said, "role": role, "active": self.pods.active or "unknown"}

    def _sinks(self) -> dict[str, Sink]:
        """Who is told about findings: the log, Kubernetes Events and Alertmanagers."""
        settings, cluster = self.settings, self.cluster
        receivers: dict[str, Sink] = {"log": log_changes}
        if cluster is not None and settings.events:
            receivers["events"] = KubeEventSink(cluster.rest, self.setup.kind_of).tell
        if settings.alertmanager:
            urls = settings.alertmanager
            receivers["alertmanager"] = AlertmanagerSink(urls, settings.runbooks).tell
        if cluster is not None and settings.client_ca_file is None:
            # Any client that reaches the port may have sent the reviews behind a finding.
            verification = Verification(cluster.objects.exists, self.supervisor)
            for name, sink in receivers.items():
                receivers[name] = verification.before(sink)
        return receivers

    async def _keep_findings(self, detecting: Detecting) -> None:
        """Restore findings from file or ConfigMap, and look at damaged objects and at versions."""
        name, file = self.settings.findings_configmap, self._store
        if isinstance(file, Path):
            keeping = kept_in_file(file, self.detection.ledger, self.metrics, self.supervisor)
            await self.stack.enter_async_context(keeping)
            name = None
        if self.cluster is None:
            return
        if name is not None and self.leader is not None:
            await self.cluster.save_findings(name, detecting, self.leader)
        await self.cluster.look_at(detecting, self._fights)

    async def _sources(self, detecting: Detecting) -> Sources:
        """What the pages show."""
        settings, cluster, pods = self.settings, self.cluster, self.pods
        sources = Sources(
            detecting,
            self.mutators,
            self.watching,
            self.metrics,
            self.setup.dependencies.about,
            cluster is not None,
            alertmanager=next(iter(settings.alertmanager), ""),
            failing=self.supervisor.failing,
            coverage=self.coverage,
            cluster=settings.cluster_name or (cluster.rest.cluster if cluster else ""),
        )
        if cluster is not None and settings.audit_only and cluster.is_own:
            # Only the server of a pod was installed by `genguard install` or an overlay.
            sources = sources._replace(enforce=await cluster.enforcing())
        if cluster is not None and self.leader is not None and settings.follows:
            follower = await cluster.follow_registrations(self.leader)
            sources = sources._replace(registrations=lambda: follower.registered)
        if pods is not None:
            tls = settings.ops_tls
            sources = sources._replace(forwarding=Forwarding(lambda: pods.active_ops, tls=tls))
        return sources

    def _access(self) -> Access:
        """Who may see what the ops port shows; raises BadTokenFileError."""
        settings = self.settings
        if settings.ops_auth == LOOPBACK:
            return within_host
        if not settings.ops_tls and not is_loopback(settings.ops_address):
            fields = {"action": "--ops-tls"}
            LOGGER.warning("tokens are sent in plain text", extra={"fields": fields})
        if self.cluster is not None and settings.token_file is None:
            return ReviewedTokens(self.cluster.review_token)
        return TokenFile(settings.token_file or Path())


@asynccontextmanager
async def build(settings: Settings, supervisor: Supervisor) -> AsyncIterator[App]:
    """Connect all parts of a server. What works beside it runs while the context is entered.

    `supervisor` runs every long-lived task. Raises an error with the name of the flag where a value
    cannot be used, CertificateError, or NoClusterError.
    """
    async with AsyncExitStack() as stack:
        app = App(settings, supervisor, stack)
        await app.connect()
        yield app
