"""`genguard install`, step by step, and `genguard uninstall`."""

import asyncio
from collections.abc import Callable, Container, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click
from cryptography import x509

from genguard.objects.fields import mapping
from genguard.versions import NEVER_WATCHED
from webhook.cli.errors import carry_out
from webhook.cli.options import Access, F, asks_cluster, timeout, together, verb
from webhook.cli.output import ask, tell
from webhook.files.given import read_registrations
from webhook.install.installing import (
    InstallOptions,
    manifests_of,
    prepare,
    prepare_removal,
    run,
    run_removal,
)
from webhook.manifest.documents import NAMESPACE, Document
from webhook.manifest.rendering import MOUNT, REGISTRATIONS, STORE_SECRET, Choices, Outside, as_yaml
from webhook.server.flags import ALERTMANAGER_URL, CIDRS, FOLDER, HTTPS_URL, Parsed
from webhook.server.watching import parse_watched
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
IN_NAMESPACE: Final = click.option("-n", "--namespace", default=NAMESPACE, show_default=True)
_FOLLOW: Final = "follow"
_ANYWHERE: Final = ("registrations_file", "namespace", "seconds")
"""The flags that go with a server that is in place, by the names of their parameters."""
_OUTSIDE: Final = ("url", "ca_file", "include_kube_system")
"""Those that also go with a server outside the cluster."""
_CHOSEN: Final = (
    "audit_only", "image", "cert_manager", "ha", "store", "store_image", "replicas", "api_servers",
    "alertmanagers", "watch_kinds", "include_kube_system",
)  # fmt: skip
"""The fields of Choices that are parameters of the same name."""


_changes_installation: Final[Callable[[F], F]] = together(
    IN_NAMESPACE,
    asks_cluster,
    click.option("--dry-run", is_flag=True),
    click.option("--yes", is_flag=True),
)
"""Adds the flags of a verb that changes an installation, after it has asked."""


def _shared_store(text: str) -> str:
    """The store of --store: one that pods can share, and without a password."""
    try:
        address = parse_store(text)
    except BadStoreError as error:
        raise click.BadParameter(str(error)) from error
    if not isinstance(address, ValkeyAddress):
        raise click.BadParameter("replicas share a Valkey or Redis: valkey://host:port/db")
    if address.password is not None:
        raise click.BadParameter(
            "everybody who may see the Deployment would see the password: put it in "
            f"secret/{STORE_SECRET}, and write ?password-file={MOUNT}/password"
        )
    for file in (address.password_file, address.cafile):
        if file is not None and PurePosixPath(file).parent != MOUNT:
            raise click.BadParameter(f"{file}: the pods have keys of {STORE_SECRET} in {MOUNT}/")
    return text


def _watchable(text: str) -> tuple[str, ...]:
    """Read --watch-kinds. Raises ValueError for what must not be read, or is never at rest."""
    kinds = parse_watched(text, "--watch-kinds")
    for kind in NEVER_WATCHED.keys() & kinds:
        raise ValueError(f"--watch-kinds {kind}: {NEVER_WATCHED[kind]}")
    return kinds


def _bundle(file: Path) -> bytes:
    """Read the certificates that a server is known by. Raises click.UsageError."""
    content = file.read_bytes()
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise click.UsageError(f"--ca-file {file}: no certificate in PEM") from error
    return content


def _read_registrations(file: Path) -> tuple[Document, ...]:
    """Read the file of --registrations-file. Raises BadFileError or click.UsageError."""
    found = read_registrations(file)
    there = [
        (document["kind"], mapping(document.get("metadata")).get("name")) for document in found
    ]
    if len(there) != len(REGISTRATIONS) or not all(named in there for named in REGISTRATIONS):
        names = ", ".join(name for _, name in REGISTRATIONS)
        raise click.UsageError(
            f"--registrations-file {file}: it must hold {names}, and nothing else"
        )
    return found


@verb()
@click.option("--audit-only", is_flag=True)
@click.option("--image")
@click.option("--url", metavar="https://HOST:PORT", type=HTTPS_URL)
@click.option("--ca-file", type=_FILE)
@click.option("--registrations", type=click.Choice([_FOLLOW, "fixed"]))
@click.option("--registrations-file", type=_FILE)
@click.option("--cert-dir", type=FOLDER)
@click.option("--cert-manager", is_flag=True)
@click.option("--ha", is_flag=True)
@click.option("--store", metavar="valkey://HOST/DB", type=Parsed(_shared_store))
@click.option("--store-image", metavar="IMAGE")
@click.option("--heal/--no-heal", default=None)
@click.option("--api-server-cidr", "api_servers", metavar="CIDR,...", default="", type=CIDRS)
@click.option(
    "--alertmanager", "alertmanagers", multiple=True, metavar="URL", type=ALERTMANAGER_URL
)
@click.option("--replicas", type=click.IntRange(1))
@click.option("--watch-kinds", metavar="KIND,...", default="", type=Parsed(_watchable))
@click.option("--include-kube-system", is_flag=True)
@timeout("3m")
@click.option("-o", "--output", type=click.Choice(["yaml"]))
@_changes_installation
def install(*, dry_run: bool, output: str | None, yes: bool, **flags: Any) -> None:
    """Install genguard into a cluster, step by step, and check each step."""
    if output and flags["registrations_file"]:
        message = "-o prints manifests, and --registrations-file has them: leave one out"
        raise click.UsageError(message)
    # Whatever applies printed manifests will apply them again, and would put the rules back.
    options = _options(
        follows=flags["registrations"] == _FOLLOW or not (output or flags["registrations"]), **flags
    )
    if output:
        click.echo(as_yaml(manifests_of(options)), nl=False)
        return
    cluster, steps = asyncio.run(prepare(options))
    tell(f"In the cluster {cluster}:")
    for step in steps:
        click.echo(f"  {step}")
    tell("and for a while, to try it out: a namespace and a webhook configuration genguard-test-*")
    if dry_run:
        return
    if not yes:
        ask("Install it?")
    carry_out(run(steps, options, tell))
    tell("installed; genguard doctor looks whether all is well")


def _options(*, follows: bool, **flags: Any) -> InstallOptions:
    """Check what fits together. Raises click.UsageError."""
    namespace, url, ca_file = flags["namespace"], flags["url"], flags["ca_file"]
    has_store, ha = flags["store"] is not None, flags["ha"]
    connect, seconds = flags["access"].connected, flags["seconds"]
    if file := flags["registrations_file"]:
        _refuse_others(flags, _ANYWHERE, "with --registrations-file, the server is in place")
        documents = _read_registrations(file)
        choices = Choices(namespace=namespace)
        return InstallOptions(connect, choices, seconds=seconds, registrations=documents)
    wrong = {
        "--url needs --ca-file: the ca.crt in the server's --cert-dir": url and not ca_file,
        "--ca-file is for a server outside the cluster: give --url": ca_file and not url,
        "--store is what replicas share: give --ha": has_store and not ha,
        "--store-image is of the Valkey that --ha installs without --store": flags["store_image"]
        is not None
        and (has_store or not ha),
        "--audit-only changes nothing: leave out --heal": flags["heal"] and flags["audit_only"],
        "give either --cert-dir or --cert-manager": flags["cert_dir"] and flags["cert_manager"],
    }
    outside = None
    if url and ca_file:
        why = "the server is started by you, and the flags of genguard serve say how it runs"
        _refuse_others(flags, (*_OUTSIDE, *_ANYWHERE), f"with --url, {why}")
        outside = Outside(url, _bundle(ca_file))
    if message := next((message for message, is_wrong in wrong.items() if is_wrong), ""):
        raise click.UsageError(message)
    choices = Choices(
        namespace=namespace,
        outside=outside,
        heal=flags["heal"] is not False,
        follow=follows,
        **{name: flags[name] for name in _CHOSEN},
    )
    return InstallOptions(connect, choices, flags["cert_dir"], seconds)


def _refuse_others(flags: Mapping[str, Any], allowed: Container[str], why: str) -> None:
    """Raise click.UsageError where another flag is given than those that are allowed."""
    given = []
    for flag in click.get_current_context().command.params:
        value = flags.get(flag.name or "")
        if flag.name not in allowed and (value or (value is False and flag.secondary_opts)):
            given.append(flag.opts[0] if value else flag.secondary_opts[0])
    if given:
        raise click.UsageError(f"leave out {' and '.join(given)}: {why}")


@verb()
@click.option("--registrations-only", is_flag=True)
@timeout("3m")
@_changes_installation
def uninstall(
    *,
    access: Access,
    namespace: str,
    registrations_only: bool,
    seconds: float,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove genguard from a cluster."""
    connect = access.connected
    steps = asyncio.run(prepare_removal(connect, namespace, registrations_only=registrations_only))
    if not steps:
        tell("there is nothing of genguard's")
        return
    for step in steps:
        click.echo(f"  {step}")
    if dry_run:
        return
    if not yes:
        ask("Delete these?")
    carry_out(run_removal(steps, connect, seconds, tell))
    tell("gone")
