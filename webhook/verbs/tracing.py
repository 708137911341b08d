"""One trace: prepared, agreed to by whoever asked, run, and cleaned up after.

prepare   finds the object and the candidates, deletes what killed runs left; registers nothing
run       listener, registrations, views until the time or the writes are over, removal
"""

import asyncio
import base64
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import certs
from webhook.admission.review import AdmissionRequest
from webhook.cluster.connection import connected
from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.cluster.tracing import (
    ObserverRegistrations,
    advertised_url,
    changed_since,
    check_rights,
    clean_up,
    configurations,
    resolve,
    sending_dry_runs,
    this_process,
)
from webhook.server.tls import ServingCertificate
from webhook.server.trace_listener import ObserverListener, Reach
from webhook.trace.plan import Plan, make_plan
from webhook.trace.registration import Endpoint, registrations
from webhook.trace.watch import Watch

_GRACE: Final = timedelta(minutes=3)
"""From the end of the time that was asked for until anyone may delete the registrations."""
_LINGER_SECONDS: Final = 0.5
"""The API server may call for a moment more; nobody there would count as a failure."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What the flags say."""

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
    """What is about to be done."""

    plan: Plan
    documents: tuple[dict[str, Any], ...]
    cleaned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """What was seen; the signal that ended it early, or 0."""

    report: dict[str, Any]
    signal: int


async def clean(kubeconfig: str, context: str | None, *, everything: bool) -> list[str]:
    """Delete what other runs left behind; the names."""
    async with _connected(kubeconfig, context) as (rest, _):
        await check_rights(rest)
        return await clean_up(rest, everything=everything)


async def prepare(options: TraceOptions) -> Prepared:
    """Raise NoClusterError, UnknownTargetError, NoTargetError, RefusedError or UNREACHED."""
    async with _connected(options.kubeconfig, options.context) as (rest, _):
        traced = await resolve(rest, options.target, options.namespace)
        await check_rights(rest)
        cleaned = await clean_up(rest, everything=options.everything)
        documents = await configurations(rest)
    plan = make_plan(documents, traced, secrets.token_hex(4))
    return Prepared(plan, tuple(documents), tuple(cleaned))


async def run(prepared: Prepared, options: TraceOptions, tell: Tell) -> Ended:
    """Raise StillRegisteredError, RefusedError, UNREACHED, or OSError for the listener."""
    watch = Watch(prepared.plan, writes=options.writes, each=options.poke)
    over = asyncio.Event()

    def on_view(position: int, view: AdmissionRequest) -> None:
        watch.see(position, view)
        if watch.is_enough:
            over.set()

    with _signals(over) as received:
        async with _connected(options.kubeconfig, options.context) as (rest, server):
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
async def _connected(kubeconfig: str, context: str | None) -> AsyncIterator[tuple[Rest, str]]:
    """Calls of the API server, and its URL."""
    async with connected(kubeconfig, context) as api:
        yield Rest(api), str(api.configuration.host)


@asynccontextmanager
async def _listening(
    reach: Reach, on_view: Callable[[int, AdmissionRequest], None]
) -> AsyncIterator[Endpoint]:
    """Serve with a certificate of this run alone."""
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
    """The observers are registered, and removed however this ends."""
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
    """Keep the signals that come: they end the watch, and nothing but SIGKILL ends the removal."""
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
