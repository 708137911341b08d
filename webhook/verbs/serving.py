"""From flags to a running server: connects judge, detection, sinks, cluster and store."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.registry import Collector

from webhook.alerts.alertmanager import AlertmanagerSink
from webhook.alerts.change import Sink
from webhook.alerts.event import CreateEvent
from webhook.alerts.kube_event import KubeEventSink
from webhook.alerts.leader import Candidate, LeaderSink, OrAlone, candidacy
from webhook.alerts.log import LogSink
from webhook.alerts.store_event import StoreEvents
from webhook.alerts.verified import Lookup, Verification, VerifiedSink
from webhook.cel.evaluator import Evaluator
from webhook.compose import Judge, JudgeOptions
from webhook.dashboard.routes import Dashboard
from webhook.dashboard.scene import Sources
from webhook.detection.detection import Detection
from webhook.detection.suspects import Suspects
from webhook.server.about import about
from webhook.server.access import Access, ByToken, WithinHost, is_loopback
from webhook.server.descriptors import fit, raise_limit
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService
from webhook.server.options import LOOPBACK, TOKEN_FILE, BadOpsAuthError, ServerOptions
from webhook.server.reviewed_tokens import ReviewedTokens, Reviewer
from webhook.server.terminating_metrics import TerminatingMetrics
from webhook.server.token_file import TokenFile
from webhook.server.watching import Watching
from webhook.status.tracking import Tracking, TrackingRows
from webhook.store.address import MemoryAddress, SqliteAddress, StoreAddress, ValkeyAddress
from webhook.store.keeping import Keeping, Kept
from webhook.store.replicas import Replicas, Tell
from webhook.store.sqlite import SqliteFile
from webhook.telemetry.logs import LOGGER, logging_to_stderr
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.tracked import TrackedMetrics
from webhook.verbs.certifying import certified
from webhook.verbs.findings import carried, rechecked

if TYPE_CHECKING:
    from webhook.cluster.rest import Rest


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """Where findings are told besides the log."""

    alertmanagers: tuple[str, ...] = ()
    events: bool = False


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster is asked, which of its objects are watched, how many metrics may name.

    secret    whose certificate is served, and renewed by one of the replicas; in our own namespace
    findings  the ConfigMap in our own namespace that keeps open findings for the next pod
    heals     the leader puts lost values back into stored objects
    """

    kubeconfig: str | None = None
    watched: tuple[str, ...] = ()
    most_named: int = 0
    secret: str | None = None
    findings: str | None = None
    heals: bool = False

    @property
    def needs_leader(self) -> bool:
        """Whether there is something that one replica alone does."""
        return self.secret is not None or self.findings is not None or self.heals


class _Connected(NamedTuple):
    """A cluster, and where in it we are; `tell` is for news of the store, `create` for Events."""

    rest: "Rest"
    namespace: str
    lease: Candidate
    create: CreateEvent
    tell: Tell | None
    tokens: Reviewer
    lookup: Lookup


@dataclass(frozen=True, slots=True)
class _Parts:
    judge: Judge
    metrics: Metrics
    suspects: Suspects
    watching: Watching
    sinks: list[Sink]


async def run_server(
    judge_options: JudgeOptions,
    options: ServerOptions,
    alerts: AlertOptions,
    cluster: ClusterOptions,
    store: StoreAddress,
    *,
    log_level: str,
) -> None:
    """Serve until told to stop; see AdmissionService.run for what it raises."""
    with logging_to_stderr(log_level):
        options = replace(options, limits=fit(options.limits, raise_limit()))
        evaluator = Evaluator()
        suspects = Suspects(conditions=evaluator)
        detection = Detection(suspects, own_user=_own_user(cluster.kubeconfig))
        replicas = _replicas(store, detection, judge_options)
        writes = None if replicas is None else replicas.writes
        judge = Judge(
            judge_options,
            writes,
            lambda: about(
                parts.metrics, _state(store, replicas), detection.completeness, evaluator.costly
            ),
        )
        tracking = Tracking()
        watching = Watching(cluster.watched, tracking)
        parts = _Parts(judge, Metrics(judge.knows), suspects, watching, [LogSink()])
        _measure(parts.metrics, judge, judge_options)
        shown: list[Collector] = [TrackedMetrics(tracking, judge.knows)]
        if cluster.watched:
            shown.append(TerminatingMetrics(watching, cluster.most_named))
        evaluator.measured(parts.metrics)
        async with AsyncExitStack() as stack:
            stack.enter_context(evaluator)
            connected = None
            if cluster.kubeconfig is not None:
                connected = await _connect(stack, cluster.kubeconfig, cluster, alerts, parts)
            access = _access(options, connected)
            candidate = await _candidate(stack, replicas, connected, cluster, parts)
            verification = None
            if connected is not None and options.client_ca_file is None:
                # Anybody who reaches the port may have sent the reviews behind a finding.
                verification = Verification(connected.lookup)
                parts.sinks[:] = [VerifiedSink(sink, verification) for sink in parts.sinks]
            if replicas is not None and candidate is not None:
                parts.sinks[:] = _speaking_for_all(parts.sinks, replicas, candidate)
            if connected is not None and candidate is not None and cluster.secret is not None:
                pair = await stack.enter_async_context(
                    certified(
                        connected.rest,
                        connected.namespace,
                        cluster.secret,
                        options,
                        leadership=candidate,
                        metrics=parts.metrics,
                    )
                )
                options = replace(options, pair=pair)
            if alerts.alertmanagers:
                # Told by every replica: a finding has the same labels everywhere, so it is one
                # alert there, and what only one of them saw is not lost.
                sink: Sink = AlertmanagerSink(alerts.alertmanagers)
                if verification is not None:
                    sink = VerifiedSink(sink, verification)
                parts.sinks.append(sink)
            if isinstance(store, SqliteAddress):
                kept: dict[str, Kept] = {
                    "findings": detection.ledger,
                    "objects": TrackingRows(tracking),
                }
                keeping = Keeping(SqliteFile(store.path), kept)
                await stack.enter_async_context(keeping.running(parts.metrics))
            sharing = None if replicas is None else replicas.sharing
            detecting = Detecting(detection, parts.sinks, tracking, sharing)
            await _share(stack, replicas, detecting, candidate)
            await _look_after(
                stack,
                connected,
                detecting,
                candidate,
                cluster=cluster,
                store=store,
                metrics=parts.metrics,
            )
            sources = Sources(
                detecting,
                parts.suspects,
                watching,
                parts.metrics,
                judge.dependencies.about,
                cluster.kubeconfig is not None,
            )
            service = AdmissionService(
                options,
                lambda: judge.dependencies,
                parts.metrics,
                detecting,
                pages=Dashboard(sources),
                access=access,
                collectors=shown,
                elsewhere=writes,
            )
            await service.run()


def _measure(metrics: Metrics, judge: Judge, options: JudgeOptions) -> None:
    """Show what the judge has forgotten too early, and what it could not do."""
    metrics.counts(
        "remembered_dropped",
        "Intents and answers that made room for others while their writes were on their way.",
        ("what",),
        judge.dropped,
    )
    if options.flipped_resources:
        metrics.gauge(
            "flip_status_refused",
            "Resources of --flip-status whose status cannot be flipped.",
            lambda: float(len(judge.not_flipped())),
        )


def _replicas(store: StoreAddress, detection: Detection, options: JudgeOptions) -> Replicas | None:
    """The others on a shared store; None without one."""
    if not isinstance(store, ValkeyAddress):
        return None
    return Replicas(store, detection, options.restored)


def _state(store: StoreAddress, replicas: Replicas | None) -> str:
    """The kind of store, and whether a shared one is lost."""
    if replicas is not None:
        return "valkey" if replicas.circuit.up else "valkey-lost"
    return "sqlite" if isinstance(store, SqliteAddress) else "memory"


def _access(options: ServerOptions, connected: _Connected | None) -> Access:
    """Who may see what the ops port shows; raises BadTokenFileError."""
    way, file = options.ops_auth
    is_far = not is_loopback(options.ops_address)
    if way == LOOPBACK:
        if is_far:
            facts = {"shown": "within this host alone", "toOthers": "with --ops-auth"}
            LOGGER.info("dashboard", extra={"facts": facts})
        return WithinHost()
    if is_far and not options.ops_tls:
        LOGGER.warning("tokens are sent in plain text", extra={"facts": {"mend": "--ops-tls"}})
    if way == TOKEN_FILE:
        return ByToken(TokenFile(file))
    if connected is None:
        raise BadOpsAuthError("--ops-auth kubernetes asks a cluster: give --kubeconfig")
    return ByToken(ReviewedTokens(connected.tokens))


async def _connect(
    stack: AsyncExitStack,
    kubeconfig: str,
    cluster: ClusterOptions,
    alerts: AlertOptions,
    parts: _Parts,
) -> _Connected:
    """Follow a cluster until the stack is left."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.events import event_creator  # noqa: PLC0415
    from webhook.cluster.existing import Existing  # noqa: PLC0415
    from webhook.cluster.follow import Learners, follow_cluster  # noqa: PLC0415
    from webhook.cluster.lease import Lease  # noqa: PLC0415
    from webhook.cluster.objects import follow_objects  # noqa: PLC0415
    from webhook.cluster.own import own_identity, own_object  # noqa: PLC0415
    from webhook.cluster.rest import Rest  # noqa: PLC0415
    from webhook.cluster.token_review import TokenReviews  # noqa: PLC0415

    judge, suspects = parts.judge, parts.suspects
    learners = Learners(lambda facts: judge.learn(*facts), suspects.learn, suspects.learn_policies)
    api = await stack.enter_async_context(follow_cluster(kubeconfig, learners, parts.metrics))
    rest = Rest(api)
    await stack.enter_async_context(follow_objects(rest, cluster.watched, parts.watching))
    tokens, lookup = TokenReviews(rest), Existing(rest).look
    own = own_object(kubeconfig)
    lease = Lease(rest, own["namespace"], "genguard", own_identity())
    create = event_creator(rest)
    if not alerts.events:
        return _Connected(rest, own["namespace"], lease, create, None, tokens, lookup)
    parts.sinks.append(KubeEventSink(create, judge.kind_of))
    tell = StoreEvents(create, own).tell
    return _Connected(rest, own["namespace"], lease, create, tell, tokens, lookup)


async def _candidate(
    stack: AsyncExitStack,
    replicas: Replicas | None,
    connected: _Connected | None,
    cluster: ClusterOptions,
    parts: _Parts,
) -> Candidate | None:
    """Who tries to lead until the stack is left; None where there is nothing to lead in.

    Replicas that share a store have it joined first; one of them makes the Events.
    """
    candidate: Candidate | None = None
    if replicas is not None:
        tell = None if connected is None else connected.tell
        await stack.enter_async_context(replicas.joined(parts.metrics, tell))
        candidate = replicas.lock
    if connected is not None and (replicas is not None or cluster.needs_leader):
        candidate = connected.lease
    if candidate is not None:
        await stack.enter_async_context(candidacy(candidate, parts.metrics))
    return candidate


async def _share(
    stack: AsyncExitStack,
    replicas: Replicas | None,
    detecting: Detecting,
    candidate: Candidate | None,
) -> None:
    """Have one detection with the other replicas until the stack is left, where there are any."""
    if replicas is not None and candidate is not None:
        await stack.enter_async_context(replicas.shared(detecting, candidate))


async def _look_after(
    stack: AsyncExitStack,
    connected: _Connected | None,
    detecting: Detecting,
    candidate: Candidate | None,
    *,
    cluster: ClusterOptions,
    store: StoreAddress,
    metrics: Metrics,
) -> None:
    """Carry, recheck and heal findings until the stack is left, where there is a cluster.

    Findings that were carried are known when this returns.
    """
    if connected is None:
        return
    rest, name = connected.rest, cluster.findings
    if name is not None and not isinstance(store, MemoryAddress):
        facts = {"unused": "--findings-configmap"}
        LOGGER.info("findings are kept by the store", extra={"facts": facts})
    elif name is not None and candidate is not None:
        where = connected.namespace, name
        carrying = carried(rest, where, detecting, leadership=candidate, metrics=metrics)
        await stack.enter_async_context(carrying)
    healer = candidate if cluster.heals else None
    ledger = detecting.detection.ledger
    await stack.enter_async_context(rechecked(rest, ledger, healer, connected.create, metrics))


def _own_user(kubeconfig: str | None) -> str:
    """Whose writes are genguard's own; "" without a cluster."""
    if kubeconfig is None:
        return ""
    from webhook.cluster.own import own_user  # noqa: PLC0415

    return own_user(kubeconfig)


def _speaking_for_all(sinks: list[Sink], replicas: Replicas, candidate: Candidate) -> list[Sink]:
    """One replica logs findings and makes Events; who is alone logs for itself."""
    log, *others = sinks
    logs = OrAlone(candidate, lambda: not replicas.sharing.is_shared)
    return [LeaderSink(log, logs), *(LeaderSink(one, candidate) for one in others)]
