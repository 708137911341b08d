"""The server of `genguard serve`: its settings, and how its parts are connected.

`Settings` declares each flag once. `build()` connects the parts and is read from top to bottom.
What needs a cluster is in webhook/serve/connected.py, which loads the client of the Kubernetes API.
"""
# ruff: noqa: RUF009 - flag() makes a dataclasses.field

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from prometheus_client.registry import Collector

from genguard.detection.detection import Detection
from genguard.detection.silences import Silences
from genguard.detection.suspects import Suspects
from genguard.detection.values import Shows
from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.objects.intended import CONDITIONS, OWN, parse_restored
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from genguard.status.assessment import JudgeFields
from genguard.status.summaries import MOST_SUMMARIES
from genguard.status.tracking import Tracking, TrackingRows
from webhook.alerts.alertmanager import AlertmanagerSink
from webhook.alerts.change import Sink
from webhook.alerts.leader_sink import LeaderSink
from webhook.alerts.log import LogSink
from webhook.alerts.silencing import AlertmanagerSilencer
from webhook.alerts.verified import Verification, VerifiedSink
from webhook.cel.evaluator import Evaluator
from webhook.cluster.kube_event import KubeEventSink
from webhook.dashboard.page import Sources
from webhook.dashboard.routes import Dashboard
from webhook.election.leader import (
    LeaderElection,
    Leadership,
    running_for_leader,
)
from webhook.files.given import load_definitions, load_static
from webhook.files.rules import ServerRules, parse_place
from webhook.serve.flags import (
    ALERTMANAGER_URL,
    FILE,
    FOLDER,
    NAMES,
    PATH,
    RUNBOOK_URL,
    duration,
    flag,
)
from webhook.server.access import Access, ByToken, WithinHost, is_loopback
from webhook.server.collectors import TerminatingMetrics, TrackedMetrics
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService, about
from webhook.server.limits import (
    fit,
    raise_limit,
)
from webhook.server.options import (
    KUBERNETES,
    LOOPBACK,
    TOKEN_FILE,
    BadOpsAuthError,
    ServerOptions,
    parse_ops_auth,
)
from webhook.server.tokens import ReviewedTokens, TokenFile
from webhook.server.watching import JudgedObjects, Watching, parse_watched
from webhook.store.address import (
    MemoryAddress,
    SqliteAddress,
    StoreAddress,
    ValkeyAddress,
    parse_store,
)
from webhook.store.replicas import Replicas
from webhook.store.state import DAMAGED, PersistentPart, StatePersister
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER, logging_to_stderr
from webhook.telemetry.metrics import Counts, Metrics
from webhook.telemetry.spans import exporting_spans

if TYPE_CHECKING:
    from webhook.cluster.standby import StandbyElection
    from webhook.serve.connected import ConnectedCluster

_YEAR_HOURS: Final = 8_760
_PORT: Final = click.IntRange(0, 65535)
_OF_CLUSTER: Final = (
    *("cert_secret", "events", "watch", "standby", "findings_configmap", "heal", "reports"),
)
AUTO: Final = "auto"


class BadSettingsError(ValueError):
    """Flags of `serve` contradict each other; the message names the flag and what to do."""


def _address_from(variable: str) -> Callable[[], str]:
    """The default of an address: what an environment variable says, else 127.0.0.1.

    Command line and --config win over the environment, which the image sets.
    """
    return lambda: os.environ.get(variable) or "127.0.0.1"


def _state_folder() -> Path:
    """The folder of a self-made certificate, after the XDG Base Directory Specification."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "genguard" / "certs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The flags of `genguard serve`, each declared once."""

    audit_only: bool = flag(default=False, text="Change nothing; only say what would be changed.")
    generation_patch: str = flag(
        AUTO,
        "Patch metadata.generation; auto: unless a connected API server overrides it anyway.",
        type=click.Choice([one.value for one in GenerationPatch]),
    )
    restore: str = flag(
        f"{OWN},{CONDITIONS}",
        "Status fields that genguard restores when another webhook clears them.",
        shown="every observedGeneration",
        metavar="FIELD,...",
    )
    shadow_generation: tuple[str, ...] = flag(
        "",
        "Keep a generation in an annotation, for kinds that have none: services,...",
        metavar="RESOURCE,...",
        type=NAMES,
    )
    flip_status: tuple[str, ...] = flag(
        "",
        "When spec of these custom resources changes, write Ready=Unknown and Settled=False into "
        "their status in the same write: widgets.example.org,...",
        note="Refused where status is a subresource or the schema might refuse a condition.",
        metavar="KIND,...",
        type=NAMES,
    )
    bind_address: str = flag(
        _address_from("GENGUARD_BIND_ADDRESS"),
        "The address on which reviews arrive.",
        shown="$GENGUARD_BIND_ADDRESS or 127.0.0.1",
        note="The image sets the variable to `0.0.0.0`.",
    )
    secure_port: int = flag(
        8443, "The port for reviews, with TLS; 0 takes any free port.", type=_PORT
    )
    tls_cert_file: Path | None = flag(
        None,
        "The certificate to serve, with its chain; PEM.",
        note="It is loaded again when the files change and are valid.",
        type=FILE,
    )
    tls_private_key_file: Path | None = flag(None, "The key of the certificate; PEM.", type=FILE)
    cert_dir: Path | None = flag(
        None,
        "The folder of a certificate that genguard makes itself if there is none.",
        shown="~/.local/state/genguard/certs",
        note="The certificate is renewed in time.",
        type=FOLDER,
    )
    cert_secret: str | None = flag(
        None,
        "Serve the certificate of this Secret in the server's own namespace, and renew it; needs "
        "a cluster. --tls-cert-file is served until it has been read.",
        metavar="NAME",
    )
    cert_lifetime: float = flag(
        "30d",
        "How long a certificate made by genguard is valid; it is renewed after two thirds.",
        note="The alert GenguardCertificateExpiry fires a week before the end: with less than "
        "three weeks it would fire before each renewal.",
        type=duration(_YEAR_HOURS),
    )
    client_ca_file: Path | None = flag(
        None,
        "Accept reviews only from clients with a certificate of these authorities; PEM.",
        note="The file is read again when it changes. Other clients are refused in the handshake, "
        "counted by reason in `genguard_refused_requests_total`, and logged once an episode.",
        type=FILE,
    )
    client_name: tuple[str, ...] = flag(
        "",
        "Accept only clients whose certificate also has one of these common names.",
        metavar="NAME,...",
        type=NAMES,
    )
    dns_name: tuple[str, ...] = flag(
        (), "Another name for the self-made certificate; repeatable.", multiple=True
    )
    ops_address: str = flag(
        _address_from("GENGUARD_OPS_ADDRESS"),
        "The address of dashboard, /api, /livez, /readyz and /metrics.",
        shown="$GENGUARD_OPS_ADDRESS or 127.0.0.1",
    )
    ops_port: int = flag(8080, "The port for these; 0 takes any free port.", type=_PORT)
    shutdown_delay: float = flag(
        "0s",
        "How long new connections are accepted after SIGTERM, each for one request.",
        note="The server stays ready for this time, until load balancers send no more requests.",
        type=duration(1, or_none=True),
    )
    ops_auth: str = flag(
        LOOPBACK,
        "Who may see dashboard and /api: connections from this host, or clients with a token. "
        "With a token, /metrics needs it too.",
        metavar="loopback|kubernetes|token-file=FILE",
    )
    ops_read_only: bool = flag(
        default=False,
        text="Let nobody acknowledge or silence a finding on the dashboard.",
        note="Without it, those may whom --ops-auth lets see the dashboard; with `kubernetes` they "
        "must also have the verb `post` on `/genguard`.",
    )
    ops_tls: bool = flag(
        default=False, text="Serve the ops port over TLS, with the same certificate."
    )
    kubeconfig: str | None = flag(
        None,
        "Learn version and custom resources from this cluster.",
        note="genguard also learns its webhooks and policies, and follows changes.",
        metavar="FILE|in-cluster",
    )
    watch: str = flag(
        "",
        "Watch these objects in all namespaces: pods,replicasets.apps,... Needs a cluster.",
        metavar="RESOURCE,...",
    )
    rules: str = flag(
        "",
        "Rules in CEL that say when objects of custom kinds are ready, settled and healthy; they "
        "come before those that genguard has for well-known kinds.",
        note="A list `rules`, or `healthCheckExprs` as Flux has it. A rule that cannot be used "
        "ends the start; of a ConfigMap that changes, the last good rules are kept. `genguard "
        "rules test FILE` tries them.",
        metavar="FILE|configmap:[NAMESPACE/]NAME",
    )
    object_metrics: int = flag(
        0,
        "How many watched objects of each kind have metrics with their name.",
        metavar="MOST",
        type=click.IntRange(0),
    )
    summary_metrics: int = flag(
        0,
        "How many namespaces, and how many applications, have metrics with their name.",
        note="An application is the label app.kubernetes.io/part-of, or else .../instance.",
        metavar="MOST",
        type=click.IntRange(0, MOST_SUMMARIES),
    )
    server_version: str = flag(
        DEFAULT_SERVER_VERSION, "The version to assume while no cluster is connected."
    )
    crds: Path | None = flag(
        None,
        "CustomResourceDefinitions, JSON or YAML.",
        note="Use it when no cluster is connected.",
        type=FILE,
    )
    static_webhooks: tuple[Path, ...] = flag(
        (),
        "Manifests that the API server reads from its own files (KEP-5793); no API lists them. "
        "Their webhooks and policies become suspects. `none`: there are no such files.",
        note="Repeat it for each staticManifestsDir. Read at the start. Without it, a connected "
        "API server of 1.36 or newer may have some, and a requester is `likely` at most.",
        metavar="DIR|FILE|none",
        multiple=True,
        type=PATH,
    )
    store: str = flag(
        "memory",
        "A file keeps findings when the server restarts; a Valkey or Redis lets replicas share.",
        metavar="memory|sqlite:PATH|valkey://HOST/DB",
    )
    show_values: bool = flag(
        default=False,
        text="Show every value in what a finding and a timeline say of a write.",
        note="Otherwise only numbers, booleans, times and the words of conditions are shown. The "
        "values are also kept where findings are. Never those of Secrets.",
    )
    standby: bool = flag(
        default=False,
        text="Answer for the Service only while this replica leads: it then gives its pod the "
        "label genguard.io/active. The others stand by, and take over. Needs a cluster.",
        note="The pod is $GENGUARD_POD_NAME, or called as its host. Not with a shared store, "
        "through which all replicas answer.",
    )
    findings_configmap: str | None = flag(
        None,
        "Keep open findings in this ConfigMap of the server's own namespace, for the next pod; "
        "needs a cluster. A --store other than memory keeps them itself.",
        metavar="NAME",
    )
    heal: bool = flag(
        default=False,
        text="Restore lost observedGeneration values in stored objects, if genguard saw their "
        "writer send them; needs a cluster, and the right to patch status.",
        note="Not with `--audit-only`.",
    )
    record: Path | None = flag(
        None,
        "Append every review to this file, for replay.",
        note="The file holds whole objects, also Secrets.",
        type=FILE,
    )
    alertmanager: tuple[str, ...] = flag(
        (),
        "Send findings there as alerts; repeat for each peer.",
        metavar="URL",
        multiple=True,
        type=ALERTMANAGER_URL,
    )
    runbook_url: str | None = flag(
        None,
        "Where alerts link their runbooks: URL/NAME.",
        shown="the server's own pages, as http://localhost:8080/runbooks",
        note="`localhost` stands for a forwarded port; with `--ops-auth` it is `--ops-address`, if "
        "that is one address. The scheme and port are those of the ops port.",
        metavar="URL",
        type=RUNBOOK_URL,
    )
    events: bool = flag(default=False, text="Make Kubernetes Events of findings; needs a cluster.")
    reports: bool = flag(
        default=False,
        text="Write open findings as Reports of OpenReports (openreports.io/v1alpha1), one for "
        "each namespace; needs a cluster with their CustomResourceDefinitions.",
        note="The leader writes them, and deletes a report when its findings are over. The right "
        "to do so is in `manifests/reports`.",
    )
    log_level: str = flag(
        "INFO",
        "The level of the log: JSON on standard error.",
        note="The log never has an object's contents.",
        type=click.Choice(["DEBUG", "INFO", "WARNING"]),
    )

    def check(self) -> None:
        """Raise BadSettingsError when flags contradict each other."""
        for is_contradiction, message in self._contradictions():
            if is_contradiction:
                raise BadSettingsError(message)

    def _contradictions(self) -> Iterator[tuple[bool, str]]:
        """Each contradiction that there can be: whether it is there, and the message."""
        has_cluster = bool(self.kubeconfig)
        yield (
            self.ops_auth == KUBERNETES and not has_cluster,
            "--ops-auth kubernetes asks a cluster: give --kubeconfig",
        )
        for name in _OF_CLUSTER:
            yield (
                bool(getattr(self, name)) and not has_cluster,
                f"--{name.replace('_', '-')} needs a cluster: give --kubeconfig",
            )
        yield (
            self.heal and self.audit_only,
            "--heal changes objects and --audit-only nothing: leave one out",
        )
        yield (
            self.standby and isinstance(parse_store(self.store), ValkeyAddress),
            "with a shared --store all replicas answer: leave out --standby",
        )
        yield (
            bool(self.tls_cert_file) != bool(self.tls_private_key_file),
            "--tls-cert-file and --tls-private-key-file go together",
        )
        yield (
            bool(self.client_name) and not self.client_ca_file,
            "--client-name is of a certificate: give --client-ca-file",
        )
        for name in ("tls_cert_file", "cert_secret"):
            yield (
                bool(getattr(self, name)) and bool(self.cert_dir),
                f"give either --{name.replace('_', '-')} or --cert-dir",
            )
        place = parse_place(self.rules)
        yield (
            place is not None and place.file is None and not has_cluster,
            "--rules configmap:... needs a cluster: give --kubeconfig, or a file",
        )
        yield (
            bool(self.object_metrics) and not self.watch,
            "--object-metrics shows what is watched: give --watch",
        )

    @property
    def needs_leader(self) -> bool:
        """Whether there is work that only one of several replicas does."""
        needs = self.cert_secret, self.standby, self.findings_configmap, self.heal, self.reports
        return any(needs)

    @property
    def runbooks(self) -> str:
        """The URL below which each runbook is; by default as the dashboard is reached."""
        if self.runbook_url:
            return self.runbook_url
        address = self.ops_address
        is_one = not is_loopback(address) and address not in ("", "0.0.0.0", "::")  # noqa: S104
        host = address if is_one and self.ops_auth != LOOPBACK else "localhost"
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.ops_tls else 'http'}://{shown}:{self.ops_port}/runbooks"

    def review_options(self) -> ReviewOptions:
        """What decides how reviews are judged; reads the file of --crds. Raises BadFileError."""
        return ReviewOptions(
            audit_only=self.audit_only,
            generation_patch=GenerationPatch(self.generation_patch),
            shadow_resources=self.shadow_generation,
            server_version=self.server_version,
            restored=parse_restored(self.restore),
            flipped_resources=self.flip_status,
            connects=bool(self.kubeconfig),
            custom_resources=load_definitions(self.crds) if self.crds else (),
        )

    def server_options(self) -> ServerOptions:
        """Where and how the server listens. Raises BadOpsAuthError."""
        return ServerOptions(
            bind_address=self.bind_address,
            secure_port=self.secure_port,
            ops_address=self.ops_address,
            ops_port=self.ops_port,
            ops_tls=self.ops_tls,
            ops_auth=parse_ops_auth(self.ops_auth),
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            cert_dir=self.cert_dir or _state_folder(),
            names=("localhost", *self.dns_name),
            lifetime=timedelta(seconds=self.cert_lifetime),
            client_ca_file=self.client_ca_file,
            client_names=frozenset(self.client_name),
            record=self.record,
            shutdown_delay=self.shutdown_delay,
        )


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
    static = load_static(settings.static_webhooks)
    watched = parse_watched(settings.watch)
    store = parse_store(settings.store)

    async with AsyncExitStack() as stack:
        stack.enter_context(logging_to_stderr(settings.log_level))
        options = replace(options, limits=fit(options.limits, raise_limit()))

        # What is found in writes.
        evaluator = stack.enter_context(Evaluator())
        suspects = Suspects(conditions=evaluator, static=static)
        detection = Detection(
            suspects,
            own_user=_own_user(settings.kubeconfig),
            compares_all=isinstance(store, ValkeyAddress),
            shows=Shows.ALL if settings.show_values else Shows.PLAIN,
        )
        silences = Silences()
        tracking = Tracking(most_summaries=settings.summary_metrics)
        rules = ServerRules(evaluator, parse_place(settings.rules))
        watching = await _watch(stack, watched, tracking, rules, supervisor)

        # How reviews are judged; with a shared store, by what other replicas have seen as well.
        replicas = None
        if isinstance(store, ValkeyAddress):
            replicas = Replicas(store, detection, review_options.restored, silences)
        writes = None if replicas is None else replicas.writes
        setup = ReviewSetup(review_options, writes)

        # What is counted, and what a probe is answered.
        metrics = _metrics(settings, setup, detection, supervisor)
        evaluator.measured(metrics)
        metrics.gauge(declarations.RULES_REFUSED, lambda: float(rules.is_refused))
        collectors: list[Collector] = [TrackedMetrics(tracking, setup.knows)]
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
        leader, standby = await _elect(
            stack,
            settings=settings,
            cluster=cluster,
            replicas=replicas,
            metrics=metrics,
            supervisor=supervisor,
        )

        def describe() -> Mapping[str, str]:
            state, failing = _store_state(store, replicas, supervisor), supervisor.failing()
            said = about(metrics, state, detection.completeness, evaluator.costly, failing)
            return {**said, **_role(standby)}

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
            leader if replicas is not None or standby is not None else None,
            alerts_everywhere=standby is None,
            silences=silences,
            reports=await _reports(stack, settings, cluster, setup, leader, metrics=metrics),
            supervisor=supervisor,
        )
        if isinstance(store, SqliteAddress):
            kept: dict[str, PersistentPart] = {
                "findings": detection.ledger,
                "silences": silences,
                # Their form has changed once: those of a file from before are not read.
                "tracked": TrackingRows(tracking),
            }
            keeping = StatePersister.opened(store.path, kept, supervisor)
            await stack.enter_async_context(keeping.running(metrics, supervisor))
        sharing = None if replicas is None else replicas.sharing
        detecting = Detecting(
            detection, sinks, tracking, sharing, rules.judge, active=standby, supervisor=supervisor
        )
        if replicas is not None and leader is not None:
            await stack.enter_async_context(replicas.shared(detecting, leader, supervisor))
        if cluster is not None:
            await _repair_findings(
                stack,
                settings=settings,
                store=store,
                cluster=cluster,
                detecting=detecting,
                leader=leader,
                metrics=metrics,
                judge=rules.judge.judge,
            )

        # The server.
        sources = Sources(
            detecting,
            suspects,
            watching,
            metrics,
            setup.dependencies.about,
            cluster is not None,
            silences,
            await _how_to_enforce(stack, settings, cluster),
            settings.ops_read_only,
            supervisor,
        )
        service = AdmissionService(
            options,
            lambda: setup.dependencies,
            metrics,
            detecting,
            pages=Dashboard(sources),
            access=access,
            collectors=collectors,
            remote_intents=writes,
            spans=await stack.enter_async_context(exporting_spans(metrics)),
            supervisor=supervisor,
            is_active=None if standby is None else lambda: standby.is_leader,
        )
        yield App(service, supervisor)


async def _watch(
    stack: AsyncExitStack,
    watched: tuple[str, ...],
    tracking: Tracking,
    rules: ServerRules,
    supervisor: Supervisor,
) -> Watching:
    """Take in what is watched; objects of kinds with a rule in CEL once they are judged."""
    judged = JudgedObjects(rules.judge, tracking, supervisor)
    await stack.enter_async_context(supervisor.running({"judged objects": judged.run}))
    return Watching(watched, tracking, judged, supervisor)


def _metrics(
    settings: Settings, setup: ReviewSetup, detection: Detection, supervisor: Supervisor
) -> Metrics:
    """Export what reviews and detection have counted."""
    metrics = Metrics(setup.knows)
    supervisor.measured(metrics)
    metrics.counts(declarations.REMEMBERED_DROPPED, setup.dropped)
    metrics.counts(
        declarations.UNCHANGED_STATUS_WRITES,
        lambda: _unchanged_status_writes(detection, metrics.resource_label),
    )
    if settings.flip_status:
        not_flipped = setup.not_flipped
        metrics.gauge(declarations.FLIP_STATUS_REFUSED, lambda: float(len(not_flipped())))
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
    replicas: Replicas | None,
    metrics: Metrics,
    supervisor: Supervisor,
) -> "tuple[LeaderElection | None, StandbyElection | None]":
    """Join the shared store and take part in the election of a leader; None where none is needed.

    A Lease of the cluster elects; without a cluster, a lock in the store. Where pods stand by the
    leader is the active one: it is returned twice.
    """
    election: LeaderElection | None = None
    standby = None
    if replicas is not None:
        tell = cluster.tell_store if cluster is not None and settings.events else None
        await stack.enter_async_context(replicas.joined(metrics, tell, supervisor))
        election = replicas.lock
    if cluster is not None and settings.standby:
        election = standby = await stack.enter_async_context(cluster.standing_by())
    elif cluster is not None and (replicas is not None or settings.needs_leader):
        election = cluster.lease
    if election is not None:
        wake = None if standby is None else standby.wake
        running = running_for_leader(election, metrics, supervisor, wake)
        await stack.enter_async_context(running)
    return election, standby


def _role(standby: "StandbyElection | None") -> Mapping[str, str]:
    """Whether this pod is the active one, and which is; nothing where every replica answers."""
    if standby is None:
        return {}
    role = "active" if standby.is_leader else "standby"
    return {"role": role, "active": standby.active or "unknown"}


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
    alerts_everywhere: bool,
    silences: Silences,
    reports: Sink | None,
    supervisor: Supervisor,
) -> dict[str, Sink]:
    """Who is told about findings: the log, Kubernetes Events, Alertmanagers and reports.

    speaker            which of several replicas tells them; None where there is one
    alerts_everywhere  every replica sends alerts
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
    if reports is not None:
        sinks["reports"] = verified(reports)
    if settings.alertmanager:
        # Replicas with a shared store all send alerts: a finding has the same labels everywhere, so
        # that it is one alert, and it is sent even if one of them cannot reach an Alertmanager.
        alerts = verified(AlertmanagerSink(settings.alertmanager, settings.runbooks))
        sinks["alertmanager"] = alerts if alerts_everywhere else of_one(alerts)
        # Only the leader mirrors silences: each replica would create its own.
        sinks["silences"] = of_one(AlertmanagerSilencer(settings.alertmanager, silences))
    return sinks


async def _reports(
    stack: AsyncExitStack,
    settings: Settings,
    cluster: "ConnectedCluster | None",
    setup: ReviewSetup,
    leader: LeaderElection | None,
    *,
    metrics: Metrics,
) -> Sink | None:
    """Write findings as Reports of OpenReports, if --reports asks for it."""
    if not settings.reports or cluster is None or leader is None:
        return None
    writing = cluster.finding_reports(setup, leadership=leader, metrics=metrics)
    return await stack.enter_async_context(writing)


async def _repair_findings(
    stack: AsyncExitStack,
    *,
    settings: Settings,
    store: StoreAddress,
    cluster: "ConnectedCluster",
    detecting: Detecting,
    leader: LeaderElection | None,
    metrics: Metrics,
    judge: JudgeFields,
) -> None:
    """Restore the findings that a ConfigMap keeps, and check and heal damaged objects."""
    name = settings.findings_configmap
    if name is not None and not isinstance(store, MemoryAddress):
        facts = {"unused": "--findings-configmap"}
        LOGGER.info("findings are kept by the store", extra={"facts": facts})
    elif name is not None and leader is not None:
        saved = cluster.saved_findings(
            name, detecting, leadership=leader, metrics=metrics, stands_by=settings.standby
        )
        await stack.enter_async_context(saved)
    healer = leader if settings.heal else None
    checks = cluster.rechecks(detecting, healer, metrics, judge)
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


def _store_state(store: StoreAddress, replicas: Replicas | None, supervisor: Supervisor) -> str:
    """The kind of store, and whether a shared one is lost, or a file was damaged at the start."""
    if replicas is not None:
        return "valkey" if replicas.circuit.up else "valkey-lost"
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
