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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

import certs
from genguard.admission.review import AdmissionRequest
from genguard.trace.passes import Watch
from genguard.trace.plan import Plan, changed, make_plan, registrations
from genguard.trace.report import as_table, make_report
from webhook.cli.errors import ExitCode
from webhook.cli.options import NAMESPACE, OUTPUT, Access, asks_cluster, timeout, verb
from webhook.cli.output import ask, object_line, print_table, tell
from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.cluster.tracing import (
    CONFIGURATIONS,
    advertised_url,
    check_rights,
    clean_up,
    configurations,
    remove,
    resolve,
    send_dry_runs,
    this_process,
    try_creation,
)
from webhook.server.flags import HTTPS_URL, LISTEN_ADDRESS
from webhook.server.tls import ServingCertificate
from webhook.server.trace_listener import Reach, observing

_GRACE: Final = timedelta(minutes=3)
"""How long after the end of --timeout other runs leave the registrations alone."""

_LINGER_SECONDS: Final = 0.5
"""How long to listen after the removal: the API server may still call, and a closed port would
count as a failed webhook."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128


async def _prepare(
    access: Access, target: str | None, namespace: str | None, *, everything: bool
) -> tuple[Plan | None, list[dict[str, Any]]]:
    """Delete what other runs have left, and plan which observers to register; none is registered.

    Raises NoTargetError, UnknownTargetError, and what asking a cluster raises.
    """
    async with access.connected() as rest:
        traced = await resolve(rest, target, access.namespace(namespace)) if target else None
        await check_rights(rest)
        for name in await clean_up(rest, everything=everything):
            tell(f"removed {name}, left behind by another trace")
        documents = await configurations(rest) if traced else []
        plan = make_plan(documents, traced, secrets.token_hex(4)) if traced else None
        return plan, documents


async def _observe(
    access: Access,
    plan: Plan,
    *,
    seconds: float,
    writes: int | None,
    poke: bool,
    url: str | None,
    listen: str | None,
) -> tuple[Watch, int]:
    """Register observers, watch writes, and remove the observers; returns what was seen.

    With the signal that ended it early, or 0. Raises StillRegisteredError, ListenError, and what
    asking a cluster raises.
    """
    watch = Watch(plan, writes=writes, each=poke)
    over, received = asyncio.Event(), list[int]()

    def on_view(position: int, view: AdmissionRequest) -> None:
        watch.see(position, view)
        if watch.is_enough:
            over.set()

    def on_signal(number: int) -> None:
        received.append(number)
        over.set()

    for number in _SIGNALS:  # they end the watch, and only SIGKILL ends the removal
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    async with access.connected() as rest:
        reach = Reach.of(url, listen, await advertised_url(rest, rest.url))
        async with _observing(rest, plan, reach, seconds, on_view):
            tell(f"{len(plan.observers)} observers registered; watching {plan.traced}")
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    if poke:
                        await send_dry_runs(rest, plan.traced, tell, over)
                    await over.wait()
    return watch, received[0] if received else 0


async def _after(access: Access, watch: Watch, documents: Sequence[dict[str, Any]]) -> list[str]:
    """Try a creation, and return which configurations that can act have changed meanwhile."""
    traced = watch.plan.traced
    try:
        async with access.connected() as rest:
            watch.creation = await try_creation(rest, traced) if watch.is_poked else {}
            return changed(documents, await configurations(rest), traced)
    except (RefusedError, *UNREACHED):
        return ["(the list could not be read again)"]


@asynccontextmanager
async def _observing(
    rest: Rest,
    plan: Plan,
    reach: Reach,
    seconds: float,
    on_view: Callable[[int, AdmissionRequest], None],
) -> AsyncIterator[None]:
    """Register observers, and remove them however this ends; their reviews are listened for.

    The certificate is made for this run.
    """
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="genguard-trace-") as folder:
        made = certs.ensure(Path(folder), names=(reach.host,), at=now)
        serving = ServingCertificate(certs.PairFiles.in_folder(Path(folder)), at=now)
    listening = observing(reach.address, reach.port, serving.context, on_view)
    async with listening as (port, path):
        ca_bundle = base64.b64encode(made.pair.ca_pem or b"").decode()
        url = reach.url(port) + path
        expires = now + timedelta(seconds=seconds) + _GRACE
        try:
            for document in registrations(plan, url, ca_bundle, this_process(), expires):
                await rest.call("POST", CONFIGURATIONS, document)
            yield
        finally:
            await remove(rest, plan.run)
        await asyncio.sleep(_LINGER_SECONDS)


@verb()
@NAMESPACE
@asks_cluster
@timeout("30s")
@click.option("--writes", type=click.IntRange(min=1))
@click.option("--poke", is_flag=True)
@click.option("--url", metavar="https://HOST:PORT", type=HTTPS_URL)
@click.option("--listen", metavar="ADDRESS:PORT", type=LISTEN_ADDRESS)
@click.option("--show-values", "values", is_flag=True)
@click.option("--cleanup", "everything", is_flag=True)
@click.option("--yes", is_flag=True)
@OUTPUT
@click.argument("target", metavar="KIND/NAME", required=False)
def trace(
    *, target: str | None, access: Access, values: bool, yes: bool, output: str, **flags: Any
) -> None:
    """Prove which webhook changes one object."""
    if target is None and not flags["everything"]:
        raise click.UsageError("give KIND/NAME, such as deployment/web")
    namespace, everything = flags.pop("namespace"), flags.pop("everything")
    plan, documents = asyncio.run(_prepare(access, target, namespace, everything=everything))
    if plan is None:
        return
    if not plan.candidates and not plan.at_creation:
        tell(f"no mutating webhook configuration matches {plan.traced}: none changes it")
        return
    watch, received = Watch(plan, writes=None, each=flags["poke"]), 0
    if plan.candidates:
        if not yes:
            _ask_to_register(plan)
        watch, received = asyncio.run(_observe(access, plan, **flags))
    else:
        tell(f"no mutating webhook configuration matches an update of {plan.traced}")
    report = make_report(watch, asyncio.run(_after(access, watch, documents)), values=values)
    if output == "json":
        click.echo(object_line(report))
    else:
        print_table(as_table(report, plan))
    if received:
        sys.exit(_SIGNALLED + received)
    if plan.candidates and not any(report["writes"].values()):
        tell(
            f"nothing was written to {plan.traced} in {flags['seconds']:g} s that reached an "
            "observer. Let somebody write it meanwhile, or give --poke; if it was written, the "
            "API server does not reach this process: see --url"
        )
        sys.exit(ExitCode.TIME_UP)


def _ask_to_register(plan: Plan) -> None:
    """Print what will be registered, and where; abort unless the user agrees."""
    tell(f"To trace {plan.traced}, these short-lived configurations will be registered:")
    for slot in plan.slots:
        for candidate in slot.candidates:
            tell(f"    {candidate.configuration}")
        if slot.observer is not None:
            tell(f"  + {slot.observer}")
    ask("Register them?")
