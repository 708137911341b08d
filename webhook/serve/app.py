"""Connects the parts of the server of `genguard serve`: read `build()` from top to bottom.

What needs a cluster is in connected.py, which loads the client of the Kubernetes API.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from genguard.detection.detection import Detection
from genguard.detection.honesty import HOW
from genguard.detection.suspects import Suspects
from genguard.detection.values import Shows
from genguard.objects.intended import Restored
from genguard.review_setup import ReviewSetup
from genguard.status.tracking import Tracking
from webhook.alerts.alertmanager import AlertmanagerSink
from webhook.alerts.change import Sink
from webhook.alerts.log import LogSink
from webhook.alerts.pipeline import LeaderSink, Verification, VerifiedSink
from webhook.cel.evaluator import Evaluator
from webhook.cluster.event import KubeEventSink
from webhook.dashboard.page import Forwarding, Sources
from webhook.dashboard.routes import Dashboard
from webhook.election.leader import (
    LeaderElection,
    Leadership,
    running_for_leader,
)
from webhook.files.rules import ServerRules, parse_place
from webhook.serve.settings import Settings
from webhook.server.access import (
    Access,
    ByToken,
    ReviewedTokens,
    TokenFile,
    WithinHost,
    is_loopback,
)
from webhook.server.collectors import TerminatingMetrics, TrackedMetrics
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService, about
from webhook.server.options import (
    LOOPBACK,
    TOKEN_FILE,
    BadOpsAuthError,
    ServerOptions,
    fit,
    raise_limit,
)
from webhook.server.watching import Watching, parse_watched
from webhook.store.address import (
    SqliteAddress,
    StoreAddress,
    ValkeyAddress,
    parse_store,
)
from webhook.store.persister import DAMAGED, kept_in_file
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER, logging_to_stderr
from webhook.telemetry.metrics import Counts, Metrics
from webhook.telemetry.spans import exporting_spans

if TYPE_CHECKING:
    from webhook.cluster.registrations import Registrations
    from webhook.cluster.standby import StandbyElection
    from webhook.serve.connected import ConnectedCluster
    from webhook.store.replicas import Replicas


@dataclass(frozen=True, slots=True)
class App:
    """A server whose parts are connected."""

    service: AdmissionService
    supervisor: Supervisor

    async def run(self) -> None:
        """Serve until a signal ends it; see AdmissionService.run for what it raises."""
        await self.service.run()


@asynccontextmanager
async def build(settings: Settings, supervisor: Supervisor) -> AsyncIterator[App]:
    """Connect all parts of a server. What works beside it runs while the context is entered.

    `supervisor` runs every long-lived task. Raises an error with the name of the
    flag where a value cannot be used, CertificateError, or NoClusterError.
    """
    review_options = settings.review_options()
    options = settings.server_options()
    watched, fights = (
        parse_watched(settings.watch),
        parse_watched(settings.watch_fights, "--watch-fights"),
    )
    store = parse_store(settings.store)

    async with AsyncExitStack() as stack:
        stack.enter_context(logging_to_stderr(settings.log_level))
        options = replace(options, limits=fit(options.limits, raise_limit()))

        # What is found in writes.
        evaluator = stack.enter_context(Evaluator())
        suspects = Suspects(conditions=evaluator)
        detection = Detection(
            suspects,
            own_user=_own_user(settings.kubeconfig),
            compares_all=isinstance(store, ValkeyAddress),
            shows=Shows.ALL if settings.show_values else Shows.PLAIN,
        )
        rules = ServerRules(evaluator, parse_place(settings.rules))
        watching = Watching(
            watched, Tracking(most_summaries=settings.summary_metrics), rules.judge, supervisor
        )
        await stack.enter_async_context(watching.judging())

        # How reviews are judged; with a shared store, by what other replicas have seen as well.
        replicas = _replicas(store, detection, review_options.restored)
        intents = None if replicas is None else replicas.intents
        setup = ReviewSetup(review_options, intents)

        # What is counted, and what a probe is answered.
        metrics = _metrics(settings, setup, detection, rules, supervisor)
        evaluator.measured(metrics)
        collectors: list[Collector] = [TrackedMetrics(watching.tracking, setup.knows)]
        if watched:
            collectors.append(TerminatingMetrics(watching, settings.object_metrics))

        # The cluster, which replica leads, and the certificate that it renews.
        cluster = await _connect(
            stack,
            kubeconfig=settings.kubeconfig,
            setup=setup,
            suspects=suspects,
            watching=watching,
            metrics=metrics,
            supervisor=supervisor,
        )
        await _follow_rules(stack, cluster, rules)
        access = _access(options, cluster)
        leader, pods = await _elect(
            stack,
            settings=settings,
            cluster=cluster,
            all_answer=replicas is not None,
            metrics=metrics,
            supervisor=supervisor,
        )
        standby = pods if replicas is None else None
        # Who makes findings, logs them and sends alerts; the others show what it has saved.
        finder = leader if replicas is not None else pods

        def describe() -> Mapping[str, str]:
            state, failing = _store_state(store, replicas, supervisor), supervisor.failing()
            said = about(metrics, state, detection.completeness, evaluator.costly, failing)
            return {**said, **_role(pods, shares=replicas is not None)}

        setup.describe_server(describe)
        options = await _with_certificate(
            stack,
            settings=settings,
            options=options,
            cluster=cluster,
            leader=leader,
            metrics=metrics,
        )

        # Detection, who is told about findings, and what is kept of them.
        sinks = _sinks(
            settings,
            cluster,
            setup,
            finder,
            supervisor=supervisor,
        )
        if isinstance(store, SqliteAddress):
            keeping = kept_in_file(store.path, detection.ledger, metrics, supervisor)
            await stack.enter_async_context(keeping)
        detecting = Detecting(
            detection,
            sinks,
            watching.tracking,
            None if replicas is None else replicas.facts,
            active=finder,
            supervisor=supervisor,
        )
        if cluster is not None:
            await _repair_findings(
                stack,
                settings=settings,
                store=store,
                cluster=cluster,
                detecting=detecting,
                leader=leader,
                metrics=metrics,
                lost_at=None if pods is None else lambda: pods.lost_at,
            )
            await stack.enter_async_context(cluster.judging_versions(setup, detecting, fights))
        if replicas is not None and leader is not None:
            tell = cluster.tell_store if cluster is not None and settings.events else None
            await stack.enter_async_context(replicas.joined(leader, metrics, tell, supervisor))

        # The server.
        sources = Sources(
            detecting,
            suspects,
            watching,
            metrics,
            setup.dependencies.about,
            cluster is not None,
            await _how_to_enforce(stack, settings, cluster),
            next(iter(settings.alertmanager), ""),
            supervisor,
            await _registrations(stack, settings, cluster, suspects, leader, metrics=metrics),
            None if pods is None else Forwarding(lambda: pods.active_ops, tls=options.ops_tls),
        )
        service = AdmissionService(
            options,
            lambda: setup.dependencies,
            metrics,
            detecting,
            pages=Dashboard(sources),
            access=access,
            collectors=collectors,
            remote_intents=intents,
            spans=await stack.enter_async_context(exporting_spans(metrics)),
            supervisor=supervisor,
            keeps_clients=None if standby is None else lambda: standby.keeps_clients,
        )
        yield App(service, supervisor)


def _metrics(
    settings: Settings,
    setup: ReviewSetup,
    detection: Detection,
    rules: ServerRules,
    supervisor: Supervisor,
) -> Metrics:
    """Export what reviews and detection have counted."""
    metrics = Metrics(setup.knows)
    supervisor.measured(metrics)
    metrics.gauge("genguard_rules_refused", lambda: float(rules.is_refused))
    metrics.counts("genguard_remembered_dropped_total", setup.dropped)
    metrics.counts(
        "genguard_unchanged_status_writes_total",
        lambda: _unchanged_status_writes(detection, metrics.resource_label),
    )
    metrics.counts(
        "genguard_observed_generation_total", lambda: _honesty(detection, metrics.resource_label)
    )
    if settings.flip_status:
        not_flipped = setup.not_flipped
        metrics.gauge("genguard_flip_status_refused", lambda: float(len(not_flipped())))
    return metrics


async def _follow_rules(
    stack: AsyncExitStack, cluster: "ConnectedCluster | None", rules: ServerRules
) -> None:
    """Follow the ConfigMap that has the rules, if they are in one."""
    place = rules.place
    if cluster is not None and place is not None and place.configmap:
        followed = cluster.rules(place.namespace, place.configmap, rules.take)
        await stack.enter_async_context(followed)


async def _connect(
    stack: AsyncExitStack,
    *,
    kubeconfig: str | None,
    setup: ReviewSetup,
    suspects: Suspects,
    watching: Watching,
    metrics: Metrics,
    supervisor: Supervisor,
) -> "ConnectedCluster | None":
    """Follow the cluster of a kubeconfig; None without one."""
    if kubeconfig is None:
        return None
    from webhook.serve.connected import connect_cluster  # noqa: PLC0415 - it loads for half a second

    connection = connect_cluster(
        kubeconfig, setup, suspects, watching, metrics=metrics, supervisor=supervisor
    )
    return await stack.enter_async_context(connection)


async def _elect(
    stack: AsyncExitStack,
    *,
    settings: Settings,
    cluster: "ConnectedCluster | None",
    all_answer: bool,
    metrics: Metrics,
    supervisor: Supervisor,
) -> "tuple[LeaderElection | None, StandbyElection | None]":
    """Take part in the election of a leader by a Lease; None where none is needed.

    An election that also says which pods are behind the Service is returned twice.
    """
    election: LeaderElection | None = None
    pods = None
    if cluster is not None and settings.standby:
        electing = cluster.electing_by_pods(all_answer=all_answer)
        election = pods = await stack.enter_async_context(electing)
    elif cluster is not None and settings.needs_leader:
        election = cluster.lease
    if election is not None:
        wake = None if pods is None else pods.wake
        running = running_for_leader(election, metrics, supervisor, wake)
        await stack.enter_async_context(running)
    return election, pods


def _replicas(store: StoreAddress, detection: Detection, restored: Restored) -> "Replicas | None":
    """Prepare what replicas share; None without a shared store."""
    if not isinstance(store, ValkeyAddress):
        return None
    from webhook.store.replicas import Replicas  # noqa: PLC0415 - it loads valkey-py

    return Replicas(store, detection, restored)


def _role(pods: "StandbyElection | None", *, shares: bool) -> Mapping[str, str]:
    """Whether this pod is the active one, and which is; nothing without --standby.

    shares  with a shared store every replica answers, and the active one judges
    """
    if pods is None:
        return {}
    role = "active" if pods.is_leader else "replica" if shares else "standby"
    return {"role": role, "active": pods.active or "unknown"}


async def _with_certificate(
    stack: AsyncExitStack,
    *,
    settings: Settings,
    options: ServerOptions,
    cluster: "ConnectedCluster | None",
    leader: LeaderElection | None,
    metrics: Metrics,
) -> ServerOptions:
    """The options, with the certificate of the Secret that --cert-secret names, if it is given."""
    if cluster is None or leader is None or settings.cert_secret is None:
        return options
    certificate = cluster.certificate(
        settings.cert_secret, options, leadership=leader, metrics=metrics
    )
    return replace(options, pair=await stack.enter_async_context(certificate))


def _sinks(
    settings: Settings,
    cluster: "ConnectedCluster | None",
    setup: ReviewSetup,
    speaker: Leadership | None,
    *,
    supervisor: Supervisor,
) -> dict[str, Sink]:
    """Who is told about findings: the log, Kubernetes Events and Alertmanagers.

    speaker  which of several replicas tells them; None where there is one
    """
    verification = None
    if cluster is not None and settings.client_ca_file is None:
        # Any client that reaches the port may have sent the reviews behind a finding.
        verification = Verification(cluster.exists, supervisor)

    def verified(sink: Sink) -> Sink:
        return sink if verification is None else VerifiedSink(sink, verification, supervisor)

    def of_one(sink: Sink) -> Sink:
        return sink if speaker is None else LeaderSink(sink, speaker)

    sinks = {"log": of_one(verified(LogSink()))}
    if cluster is not None and settings.events:
        events = KubeEventSink(cluster.create_event, setup.kind_of)
        sinks["events"] = of_one(verified(events))
    if settings.alertmanager:
        alerts = verified(AlertmanagerSink(settings.alertmanager, settings.runbooks))
        sinks["alertmanager"] = of_one(alerts)
    return sinks


async def _registrations(
    stack: AsyncExitStack,
    settings: Settings,
    cluster: "ConnectedCluster | None",
    suspects: Suspects,
    leader: LeaderElection | None,
    *,
    metrics: Metrics,
) -> "Callable[[], Registrations] | None":
    """Keep the registrations, if --registrations asks for it; return what tells what they are."""
    if not settings.follows or cluster is None or leader is None:
        return None
    enforcing = not settings.audit_only
    following = cluster.followed_registrations(suspects, leader, metrics, enforcing=enforcing)
    follower = await stack.enter_async_context(following)
    return lambda: follower.registered


async def _repair_findings(
    stack: AsyncExitStack,
    *,
    settings: Settings,
    store: StoreAddress,
    cluster: "ConnectedCluster",
    detecting: Detecting,
    leader: LeaderElection | None,
    metrics: Metrics,
    lost_at: Callable[[], float] | None,
) -> None:
    """Restore the findings that a ConfigMap keeps, and check and heal damaged objects.

    lost_at  when a replica that answered was lost, in monotonic seconds
    """
    name = settings.findings_configmap
    if name is not None and isinstance(store, SqliteAddress):
        facts = {"unused": "--findings-configmap"}
        LOGGER.info("findings are kept in the file", extra={"facts": facts})
    elif name is not None and leader is not None:
        stands_by = settings.standby or isinstance(store, ValkeyAddress)
        saved = cluster.saved_findings(
            name, detecting, leadership=leader, metrics=metrics, stands_by=stands_by
        )
        await stack.enter_async_context(saved)
    checks = cluster.rechecks(detecting, leader, metrics, lost_at, heals=settings.heal)
    await stack.enter_async_context(checks)


async def _how_to_enforce(
    stack: AsyncExitStack, settings: Settings, cluster: "ConnectedCluster | None"
) -> Callable[[], str]:
    """Return what tells the command that makes this server enforcing; "" where none is known.

    Only the server of a pod was installed by `genguard install` or an overlay.
    """
    if cluster is None or not settings.audit_only or not cluster.is_own:
        return str
    return (await stack.enter_async_context(cluster.installation())).enforce


def _own_user(kubeconfig: str | None) -> str:
    """The user whose writes are genguard's own; "" without a cluster."""
    if kubeconfig is None:
        return ""
    from webhook.serve.connected import server_user  # noqa: PLC0415 - it loads for half a second

    return server_user(kubeconfig)


def _unchanged_status_writes(detection: Detection, label: Callable[[str, str], str]) -> Counts:
    """Return how often an update of a status changed nothing, by the label of its resource."""
    found: Counter[str] = Counter()
    for kind, count in list(detection.unchanged_status_writes.items()):
        found[label(kind.group, kind.resource)] += count
    return [((name,), count) for name, count in found.items()]


def _honesty(detection: Detection, label: Callable[[str, str], str]) -> Counts:
    """Return how controllers handle observedGeneration, by user, label of the resource and how."""
    found: Counter[tuple[str, ...]] = Counter()
    for one in detection.honesty.writers():
        for how in HOW:
            found[one.user, label(one.group, one.resource), how] += getattr(one, how)
    return [(names, count) for names, count in found.items() if count]


def _store_state(store: StoreAddress, replicas: "Replicas | None", supervisor: Supervisor) -> str:
    """The kind of store, and whether a shared one is lost, or a file was damaged at the start."""
    if replicas is not None:
        return "valkey" if replicas.store.up else "valkey-lost"
    if not isinstance(store, SqliteAddress):
        return "memory"
    return "sqlite-damaged" if supervisor.left_out.get(DAMAGED) else "sqlite"


def _access(options: ServerOptions, cluster: "ConnectedCluster | None") -> Access:
    """Who may see what the ops port shows; raises BadTokenFileError."""
    way, file = options.ops_auth
    is_far = not is_loopback(options.ops_address)
    if way == LOOPBACK:
        if is_far:
            facts = {"shown": "within this host alone", "toOthers": "with --ops-auth"}
            LOGGER.info("dashboard", extra={"facts": facts})
        return WithinHost()
    if is_far and not options.ops_tls:
        LOGGER.warning("tokens are sent in plain text", extra={"facts": {"action": "--ops-tls"}})
    if way == TOKEN_FILE:
        return ByToken(TokenFile(file))
    if cluster is None:
        raise BadOpsAuthError("--ops-auth kubernetes asks a cluster: give --kubeconfig")
    return ByToken(ReviewedTokens(cluster.tokens))
