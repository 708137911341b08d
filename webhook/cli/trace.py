"""`genguard trace`: which webhook changes one object."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

import certs
from webhook.cli.cluster import CONTEXT, KUBECONFIG, NAMESPACE, OUTPUT
from webhook.cli.duration import duration
from webhook.cli.url import https_url
from webhook.objects.shown import json_line, printable
from webhook.trace.plan import Plan
from webhook.trace.report import as_table

if TYPE_CHECKING:
    from webhook.verbs.tracing import Prepared, TraceOptions

_NOTHING_WRITTEN = 2
_SIGNALLED = 128


def _address(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        found = urlsplit(f"//{text}")
        fits = bool(found.hostname) and found.port is not None
    except ValueError:
        fits = False
    if not fits:
        raise click.BadParameter(f"{text!r} is not ADDRESS:PORT")
    return text


@click.command()
@NAMESPACE
@KUBECONFIG
@CONTEXT
@click.option(
    "--for",
    "seconds",
    default="30s",
    show_default=True,
    metavar="DURATION",
    callback=duration(1),
    help="How long to wait for writes.",
)
@click.option("--writes", type=click.IntRange(min=1), help="End after so many writes.")
@click.option(
    "--poke",
    is_flag=True,
    help="Do not wait for somebody to write: send empty patches of the object and its status, as "
    "dry runs, which webhooks see and nobody stores. A webhook that acts on what only the real "
    "writer sends, or on its name, shows only in real writes.",
)
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    callback=https_url,
    help="How the API server reaches this process. [default: this machine's address, a free port]",
)
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    callback=_address,
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
    """Name for certain which webhook changes one object.

    Registers observers that are called right before and after each mutating webhook configuration
    that can act on writes of the object, compares what they see, and removes them. Observers
    change nothing and are called for this object alone; with failurePolicy Ignore and a timeout
    of 2 s, a write goes on without them. KIND is a kind, plural or short name: deploy/web,
    deployments.apps/web.

    The exit code is 0 when writes were seen or nothing can change it, 1 when it could not be done,
    2 when nothing was written in time or the command line is wrong.
    """
    if target is None and not flags["everything"]:
        raise click.UsageError("give KIND/NAME, such as deployment/web")
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.connection import NoClusterError  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415
    from webhook.cluster.tracing import NoTargetError, StillRegisteredError  # noqa: PLC0415
    from webhook.objects.served import UnknownTargetError  # noqa: PLC0415

    refusals = (UnknownTargetError, NoTargetError, RefusedError, NoClusterError)
    try:
        code = _trace(target, **flags)
    except (StillRegisteredError, certs.CertificateError, *refusals) as error:
        raise click.ClickException(str(error)) from error
    except UNREACHED as error:
        raise click.ClickException(f"not reached: {str(error) or type(error).__name__}") from error
    sys.exit(code)


def _trace(target: str | None, *, yes: bool, output: str, **flags: Any) -> int:
    from webhook.cluster.connection import default_kubeconfig, default_namespace  # noqa: PLC0415
    from webhook.verbs.tracing import TraceOptions, clean, prepare  # noqa: PLC0415

    kubeconfig = flags.pop("kubeconfig") or default_kubeconfig()
    if target is None:
        _tell_cleaned(asyncio.run(clean(kubeconfig, flags["context"], everything=True)))
        return 0
    namespace = flags.pop("namespace") or default_namespace(kubeconfig, flags["context"])
    options = TraceOptions(kubeconfig=kubeconfig, target=target, namespace=namespace, **flags)
    prepared = asyncio.run(prepare(options))
    _tell_cleaned(prepared.cleaned)
    if not prepared.plan.candidates:
        _tell(f"no mutating webhook configuration matches {prepared.plan.traced}: none changes it")
        return 0
    if not yes:
        _ask(prepared.plan)
    return _run(prepared, options, output)


def _run(prepared: "Prepared", options: "TraceOptions", output: str) -> int:
    from webhook.verbs.tracing import run  # noqa: PLC0415

    found = asyncio.run(run(prepared, options, _tell))
    report, plan = found.report, prepared.plan
    click.echo(json_line(report) if output == "json" else as_table(report, plan))
    if found.signal:
        return _SIGNALLED + found.signal
    if not any(report["writes"].values()):
        _tell(
            f"nothing was written to {plan.traced} in {options.seconds:g} s that reached an "
            "observer. Let somebody write it meanwhile, or give --poke; if it was written, the "
            "API server does not reach this process: see --url"
        )
        return _NOTHING_WRITTEN
    return 0


def _ask(plan: Plan) -> None:
    """Tell what will be registered, and where; abort unless that is agreed to."""
    _tell(f"To trace {plan.traced}, these short-lived configurations will be registered:")
    for slot in plan.slots:
        for one in slot.candidates:
            _tell(f"    {one.configuration}")
        if slot.observer is not None:
            _tell(f"  + {slot.observer}")
    if not sys.stdin.isatty():
        raise click.ClickException("nobody to ask: give --yes to register them")
    click.confirm("Register them?", abort=True, err=True)


def _tell_cleaned(names: list[str] | tuple[str, ...]) -> None:
    for name in names:
        _tell(f"removed {name}, left behind by another trace")


def _tell(text: str) -> None:
    click.echo(printable(text), err=True)
