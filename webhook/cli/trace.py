"""`genguard trace`: which webhook changes one object.

Preparing finds the object and the webhooks that can change it, and deletes what killed runs left
behind; nothing is registered before the user agrees. A run registers observers, watches until the
time or the writes are over, and removes the observers however it ends.
"""

import asyncio
import base64
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

import certs
from genguard.admission.review import AdmissionRequest
from genguard.objects.shown import json_line
from genguard.trace.plan import Plan, make_plan
from genguard.trace.registration import Endpoint, Watch, registrations
from genguard.trace.report import as_table
from webhook.cli import output as terminal
from webhook.cli.errors import ExitCode, one_line_errors
from webhook.cli.options import CONTEXT, KUBECONFIG, NAMESPACE, OUTPUT, examples
from webhook.cli.output import Tell, ask, tell
from webhook.cluster.connection import connected, default_kubeconfig, default_namespace
from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.cluster.tracing import (
    NoTargetError,
    ObserverRegistrations,
    StillRegisteredError,
    advertised_url,
    changed_since,
    check_rights,
    clean_up,
    configurations,
    resolve,
    sending_dry_runs,
    this_process,
)
from webhook.serve.flags import HTTPS_URL, LISTEN_ADDRESS, duration
from webhook.server.connection import ListenError
from webhook.server.tls import ServingCertificate
from webhook.server.trace_listener import ObserverListener, Reach

_GRACE: Final = timedelta(minutes=3)
"""How long after the end of --timeout other runs leave the registrations alone."""

_LINGER_SECONDS: Final = 0.5
"""How long to listen after the removal: the API server may still call, and a closed port would
count as a failed webhook."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The flags of trace."""

    kubeconfig: str
    context: str | None
    target: str
    namespace: str
    seconds: float
    writes: int | None
    poke: bool
    url: str | None
    listen: str | None
    values: bool
    everything: bool  # clean up after live runs, too


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run is about to register."""

    plan: Plan
    documents: tuple[dict[str, Any], ...]
    cleaned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """What was seen, and the signal that ended the run early, or 0."""

    report: dict[str, Any]
    signal: int


async def _clean(kubeconfig: str, context: str | None, *, everything: bool) -> list[str]:
    """Delete what other runs have left in the cluster; returns the names."""
    async with _api(kubeconfig, context) as (rest, _):
        await check_rights(rest)
        return await clean_up(rest, everything=everything)


async def _prepare(options: TraceOptions) -> Prepared:
    """Find the object and the webhooks that can change it; nothing is registered.

    Raises NoClusterError, UnknownTargetError, NoTargetError, RefusedError or UNREACHED.
    """
    async with _api(options.kubeconfig, options.context) as (rest, _):
        traced = await resolve(rest, options.target, options.namespace)
        await check_rights(rest)
        cleaned = await clean_up(rest, everything=options.everything)
        documents = await configurations(rest)
    plan = make_plan(documents, traced, secrets.token_hex(4))
    return Prepared(plan, tuple(documents), tuple(cleaned))


async def _observe(prepared: Prepared, options: TraceOptions, tell: Tell) -> Ended:
    """Register observers, watch writes, remove the observers, and report.

    Raises StillRegisteredError, RefusedError, UNREACHED, or OSError for the listener.
    """
    watch = Watch(prepared.plan, writes=options.writes, each=options.poke)
    over = asyncio.Event()

    def on_view(position: int, view: AdmissionRequest) -> None:
        watch.see(position, view)
        if watch.is_enough:
            over.set()

    with _signals(over) as received:
        async with _api(options.kubeconfig, options.context) as (rest, server):
            reach = Reach.of(options.url, options.listen, await advertised_url(rest, server))
            async with _listening(reach, on_view) as at:
                async with _bracketed(rest, prepared.plan, at, options.seconds):
                    count = len(prepared.plan.observers)
                    tell(f"{count} observers registered; watching {prepared.plan.traced}")
                    poke = sending_dry_runs(rest, prepared.plan.traced, tell)
                    async with poke if options.poke else nullcontext():
                        await _over_or(over, options.seconds)
                await asyncio.sleep(_LINGER_SECONDS)
            changed = await _changed(rest, prepared)
    return Ended(watch.report(changed, values=options.values), received[0] if received else 0)


@asynccontextmanager
async def _api(kubeconfig: str, context: str | None) -> AsyncIterator[tuple[Rest, str]]:
    """Connect to the API server; gives its client and its URL."""
    async with connected(kubeconfig, context) as api:
        yield Rest(api), str(api.configuration.host)


@asynccontextmanager
async def _listening(
    reach: Reach, on_view: Callable[[int, AdmissionRequest], None]
) -> AsyncIterator[Endpoint]:
    """Listen for the observers' reviews, with a certificate made for this run."""
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="genguard-trace-") as folder:
        made = certs.ensure(Path(folder), names=reach.names, ips=reach.ips, at=now)
        serving = ServingCertificate(certs.PairFiles.in_folder(Path(folder)), at=now)
    listener = ObserverListener(reach.address, reach.port, serving.context, on_view)
    async with listener:
        ca_bundle = base64.b64encode(made.pair.ca_pem or b"").decode()
        yield Endpoint(reach.url(listener.port) + listener.path, ca_bundle)


@asynccontextmanager
async def _bracketed(
    rest: Rest, plan: Plan, endpoint: Endpoint, seconds: float
) -> AsyncIterator[None]:
    """Register the observers, and remove them however this ends."""
    bracket = ObserverRegistrations(rest, plan.run)
    expires = datetime.now(UTC) + timedelta(seconds=seconds) + _GRACE
    try:
        await bracket.register(registrations(plan, endpoint, this_process(), expires))
        yield
    finally:
        await bracket.remove()


async def _over_or(over: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()


async def _changed(rest: Rest, prepared: Prepared) -> list[str]:
    try:
        return await changed_since(rest, prepared.documents)
    except (RefusedError, *UNREACHED):
        return ["(the list could not be read again)"]


@contextmanager
def _signals(over: asyncio.Event) -> Iterator[list[int]]:
    """Collect signals: they end the watch, and only SIGKILL ends the removal."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        over.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield received
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@click.command(
    epilog=examples(
        (
            "Which webhook changes an object, without waiting for somebody to write it",
            "genguard trace deploy/web -n shop --poke",
        ),
        (
            "Watch the next 20 writes of others, five minutes at most",
            "genguard trace deploy/web -n shop --writes 20 --timeout 5m",
        ),
        ("Remove what a killed run has left behind", "genguard trace --cleanup"),
    ),
)
@NAMESPACE
@KUBECONFIG
@CONTEXT
@click.option(
    "--timeout",
    "seconds",
    default="30s",
    show_default=True,
    metavar="DURATION",
    type=duration(1),
    help="How long to wait for writes.",
)
@click.option(
    "--for", "seconds_before", type=duration(1), hidden=True, help="The former name of --timeout."
)
@click.option("--writes", type=click.IntRange(min=1), help="End after so many writes.")
@click.option(
    "--poke",
    is_flag=True,
    help="Do not wait for somebody to write: send patches of the object and its status, as dry "
    "runs, which webhooks see and nobody stores. They are empty, but for an observedGeneration "
    "that the stored object has lost. A webhook that acts on what only the real writer sends, or "
    "on its name, shows only in real writes.",
)
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    type=HTTPS_URL,
    help="How the API server reaches this process. [default: this machine's address, a free port]",
)
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    type=LISTEN_ADDRESS,
    help="Where this process listens, when --url leads here by another way. "
    "[default: its port, on every address]",
)
@click.option("--show-values", "values", is_flag=True, help="Print contents of fields, too.")
@click.option(
    "--cleanup",
    "everything",
    is_flag=True,
    help="First remove what every other trace registered, running ones too; alone, do only that.",
)
@click.option("--yes", is_flag=True, help="Register without asking.")
@OUTPUT
@click.argument("target", metavar="KIND/NAME", required=False)
def trace(target: str | None, **flags: Any) -> None:
    """Prove which webhook changes one object.

    Registers observers that are called right before and after each mutating webhook configuration
    that can act on writes of the object, compares what they see, and removes them. Observers
    change nothing and are called for this object alone; with failurePolicy Ignore and a timeout
    of 2 s, a write goes on without them. KIND is a kind, plural or short name: deploy/web,
    deployments.apps/web.

    The exit code is 0 when writes were seen or nothing can change it, 1 when it could not be done,
    2 when the command line is wrong, 3 when nothing was written in time.
    """
    if target is None and not flags["everything"]:
        raise click.UsageError("give KIND/NAME, such as deployment/web")
    with one_line_errors():
        try:
            code = _trace(target, **flags)
        except (StillRegisteredError, NoTargetError, ListenError, certs.CertificateError) as error:
            raise click.ClickException(str(error)) from error
    sys.exit(code)


def _trace(target: str | None, *, yes: bool, output: str, **flags: Any) -> int:
    kubeconfig = flags.pop("kubeconfig") or default_kubeconfig()
    flags["seconds"] = flags.pop("seconds_before") or flags["seconds"]
    if target is None:
        _tell_cleaned(asyncio.run(_clean(kubeconfig, flags["context"], everything=True)))
        return 0
    namespace = flags.pop("namespace") or default_namespace(kubeconfig, flags["context"])
    options = TraceOptions(kubeconfig=kubeconfig, target=target, namespace=namespace, **flags)
    prepared = asyncio.run(_prepare(options))
    _tell_cleaned(prepared.cleaned)
    if not prepared.plan.candidates:
        tell(f"no mutating webhook configuration matches {prepared.plan.traced}: none changes it")
        return 0
    if not yes:
        _ask_to_register(prepared.plan)
    return _run(prepared, options, output)


def _run(prepared: Prepared, options: TraceOptions, output: str) -> int:
    found = asyncio.run(_observe(prepared, options, tell))
    report, plan = found.report, prepared.plan
    lines = [json_line(report)] if output == "json" else terminal.lines(as_table(report, plan))
    for line in lines:
        click.echo(line)
    if found.signal:
        return _SIGNALLED + found.signal
    if not any(report["writes"].values()):
        tell(
            f"nothing was written to {plan.traced} in {options.seconds:g} s that reached an "
            "observer. Let somebody write it meanwhile, or give --poke; if it was written, the "
            "API server does not reach this process: see --url"
        )
        return ExitCode.TIME_UP
    return 0


def _ask_to_register(plan: Plan) -> None:
    """Print what will be registered, and where; abort unless the user agrees."""
    tell(f"To trace {plan.traced}, these short-lived configurations will be registered:")
    for slot in plan.slots:
        for one in slot.candidates:
            tell(f"    {one.configuration}")
        if slot.observer is not None:
            tell(f"  + {slot.observer}")
    ask("Register them?")


def _tell_cleaned(names: list[str] | tuple[str, ...]) -> None:
    for name in names:
        tell(f"removed {name}, left behind by another trace")
