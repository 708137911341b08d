"""`genguard install`: what it will touch, and then, when that is agreed to, in four phases."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import certs
from webhook.cli.administer import ask, carry_out, changes, tell
from webhook.cli.cidr import cidrs
from webhook.cli.cluster import telling
from webhook.cli.duration import duration
from webhook.cli.store import shared_store
from webhook.cli.url import alertmanager_urls, https_url
from webhook.manifest.rendering import Choices, Outside, SharedStore, as_yaml

if TYPE_CHECKING:
    from webhook.verbs.installation import InstallOptions, Prepared

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--audit-only", is_flag=True, help="Watch, warn and count; change nothing.")
@click.option("--image", help="The server's image. [default: genguard:VERSION]")
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    callback=https_url,
    help="The server runs outside the cluster, and the API server reaches it here: only the "
    "registrations are made.",
)
@click.option("--ca-file", type=_FILE, help="With --url: the bundle that the server is known by.")
@click.option(
    "--cert-dir",
    type=_FOLDER,
    help="Take the certificate from this folder, made if absent. [default: the Secret's own, as "
    "long as it is good; then a new one, by an authority that is forgotten]",
)
@click.option("--cert-manager", is_flag=True, help="Let cert-manager see to the certificate.")
@click.option(
    "--ha",
    is_flag=True,
    help="Three replicas that judge as one, through a store in common: a Valkey that is installed "
    "beside them, or that of --store.",
)
@click.option(
    "--store",
    metavar="valkey://HOST/DB",
    callback=shared_store,
    help="With --ha: a store of yours, as serve takes it; its files are keys of "
    "secret/genguard-store. [default: a Valkey that is installed]",
)
@click.option("--store-image", metavar="IMAGE", help="With --ha: the image of that Valkey.")
@click.option(
    "--heal/--no-heal",
    default=None,
    help="Put back values that were lost before, by patches of status; it takes the right to patch "
    "every status that is watched. [default: unless --audit-only]",
)
@click.option(
    "--api-server-cidr",
    "api_servers",
    metavar="CIDR,...",
    default="",
    callback=cidrs,
    help="Whence the API servers call, as pods see it: the NetworkPolicy lets nobody else reach "
    "the webhook port. [default: everybody]",
)
@click.option(
    "--alertmanager",
    "alertmanagers",
    multiple=True,
    metavar="URL",
    callback=alertmanager_urls,
    help="Send findings there as alerts, and let the NetworkPolicy pass them; repeat for each "
    "peer.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="How many pods; more than one need --ha. [default: 1, or 3 with --ha]",
)
@click.option(
    "--timeout",
    "seconds",
    default="3m",
    show_default=True,
    callback=duration(1),
    help="How long each phase may take.",
)
@click.option("-o", "output", type=click.Choice(["yaml"]), help="Print the manifests, and be done.")
@changes
def install(*, dry_run: bool, output: str | None, yes: bool, **flags: Any) -> None:
    """Put genguard into a cluster, in proven steps.

    First the server; then the API server must reach it over TLS; then it is registered for a
    trial namespace and must be seen to answer; then for the whole cluster, which must be seen as
    well. What is interrupted or fails is put back, and goes on when it is run again.

    The exit code is 0 when it is installed, 1 when that could not be done.
    """
    from webhook.verbs.installation import manifests_of  # noqa: PLC0415

    options = _options(**flags)
    try:
        if output == "yaml":
            click.echo(as_yaml(manifests_of(options)), nl=False)
            return
        with telling():
            _install(options, dry_run=dry_run, yes=yes)
    except certs.CertificateError as error:
        raise click.ClickException(str(error)) from error


def _install(options: "InstallOptions", *, dry_run: bool, yes: bool) -> None:
    from webhook.verbs.installation import prepare  # noqa: PLC0415
    from webhook.verbs.phases import run  # noqa: PLC0415

    prepared = asyncio.run(prepare(options))
    _explain(prepared)
    if dry_run:
        return
    if not yes:
        ask("Install it?")
    carry_out(run(prepared, options, tell))
    tell("installed; genguard doctor looks whether all is well")


def _options(
    *,
    url: str | None,
    ca_file: Path | None,
    cert_dir: Path | None,
    image: str | None,
    audit_only: bool,
    cert_manager: bool,
    ha: bool,
    store: SharedStore | None,
    store_image: str | None,
    heal: bool | None,
    replicas: int | None,
    api_servers: tuple[str, ...],
    alertmanagers: tuple[str, ...],
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    seconds: float,
) -> "InstallOptions":
    from webhook.verbs.installation import InstallOptions  # noqa: PLC0415

    outside = None
    if url is not None:
        if ca_file is None:
            raise click.UsageError("--url needs --ca-file: the ca.crt in the server's --cert-dir")
        inside = (image, cert_dir, cert_manager, ha, store_image, replicas, api_servers)
        if audit_only or heal is not None or any(inside) or alertmanagers:
            raise click.UsageError("with --url, how the server runs is said where it is started")
        outside = Outside(url, ca_file.read_bytes())
    elif ca_file is not None:
        raise click.UsageError("--ca-file is for a server outside the cluster: give --url")
    if store is not None and not ha:
        raise click.UsageError("--store is what replicas share: give --ha")
    if store_image is not None and (store is not None or not ha):
        raise click.UsageError("--store-image is of the Valkey that --ha installs without --store")
    if (replicas or 1) > 1 and not ha:
        raise click.UsageError(
            "more than one replica without a store in common: the phases of one write reach "
            "different pods, and each judges a part. Give --ha, which installs a Valkey for them, "
            "or --ha --store ADDRESS"
        )
    if heal and audit_only:
        raise click.UsageError("--audit-only changes nothing: leave out --heal")
    if cert_dir and cert_manager:
        raise click.UsageError("give either --cert-dir or --cert-manager")
    choices = Choices(
        audit_only,
        namespace,
        image,
        cert_manager,
        outside,
        heal=heal is not False,
        ha=ha,
        store=store,
        store_image=store_image,
        replicas=replicas,
        api_servers=api_servers,
        alertmanagers=alertmanagers,
    )
    return InstallOptions(kubeconfig, context, choices, cert_dir, seconds)


def _explain(prepared: "Prepared") -> None:
    tell(f"In the cluster {prepared.cluster}:")
    for step in prepared.steps:
        click.echo(f"  {step}")
    tell("and for a while, to try it out: a namespace and a webhook configuration genguard-test-*")
