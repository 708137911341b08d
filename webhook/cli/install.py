"""`genguard install`, step by step, and `genguard uninstall`."""

import asyncio
from collections.abc import Container, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click
from cryptography import x509

from genguard.linting.hook import mapping
from webhook.cli.errors import carry_out
from webhook.cli.options import CONTEXT, KUBECONFIG, Access, F, examples, timeout, with_flags
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
from webhook.manifest.rendering import (
    MOUNT,
    REGISTRATIONS,
    STORE_SECRET,
    Choices,
    Outside,
    as_yaml,
)
from webhook.server.flags import ALERTMANAGER_URL, CIDRS, FOLDER, HTTPS_URL, Parsed
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
IN_NAMESPACE: Final = click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="Where the server runs."
)
_FOLLOW: Final = "follow"
_ANYWHERE: Final = ("registrations_file", "namespace", "kubeconfig", "context", "seconds")
"""The flags that go with a server that is in place, by the names of their parameters."""
_CHOSEN: Final = (
    "audit_only", "image", "cert_manager", "ha", "store", "store_image", "replicas", "api_servers",
    "alertmanagers",
)  # fmt: skip
"""The fields of Choices that are parameters of the same name."""


def _changes_installation(verb: F) -> F:
    """Add the flags of a verb that changes an installation, after it has asked."""
    flags = (
        IN_NAMESPACE,
        KUBECONFIG,
        CONTEXT,
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        click.option("--yes", is_flag=True, help="Do it without asking."),
    )
    return with_flags(verb, flags)


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
    there = [(one["kind"], mapping(one.get("metadata")).get("name")) for one in found]
    if len(there) != len(REGISTRATIONS) or not all(one in there for one in REGISTRATIONS):
        names = ", ".join(name for _, name in REGISTRATIONS)
        raise click.UsageError(
            f"--registrations-file {file}: it must hold {names}, and nothing else"
        )
    return found


@click.command(epilog=examples("install"))
@click.option("--audit-only", is_flag=True, help="Observe, warn and count, but change nothing.")
@click.option("--image", help="The server's image. [default: genguard:VERSION]")
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    type=HTTPS_URL,
    help="The server runs outside the cluster, and the API server reaches it here: only the "
    "registrations are made.",
)
@click.option("--ca-file", type=_FILE, help="With --url: the CA bundle of the server.")
@click.option(
    "--registrations",
    type=click.Choice([_FOLLOW, "fixed"]),
    help="follow: the server registers only the phases that can show or repair something, and "
    "follows what the cluster needs. fixed: all phases, for a tool that applies the registrations "
    "again and again. [default: follow; fixed with -o]",
)
@click.option(
    "--registrations-file",
    type=_FILE,
    help="The server is in place, as the Helm chart makes it: only prove that the API server "
    "reaches it, and make the registrations in this file.",
)
@click.option(
    "--cert-dir",
    type=FOLDER,
    help="Take the certificate from this folder, or make it there. [default: that of the Secret "
    "while it is valid, otherwise a new one, whose CA key is not kept]",
)
@click.option(
    "--cert-manager", is_flag=True, help="Let cert-manager issue and renew the certificate."
)
@click.option(
    "--ha",
    is_flag=True,
    help="Run three replicas that all answer and share a store: a Valkey that is installed too, or "
    "that of --store.",
)
@click.option(
    "--store",
    metavar="valkey://HOST/DB",
    type=Parsed(_shared_store),
    help="With --ha: your own store, as for serve; the files in the address are keys of "
    "secret/genguard-store. [default: a Valkey that is installed]",
)
@click.option("--store-image", metavar="IMAGE", help="With --ha: the image of that Valkey.")
@click.option(
    "--heal/--no-heal",
    default=None,
    help="Restore lost values in stored objects. This needs the right to patch every status that "
    "is watched. [default: unless --audit-only]",
)
@click.option(
    "--api-server-cidr",
    "api_servers",
    metavar="CIDR,...",
    default="",
    type=CIDRS,
    help="The addresses of the API servers, as pods see them: the NetworkPolicy lets nobody else "
    "reach the webhook port. [default: everybody]",
)
@click.option(
    "--alertmanager",
    "alertmanagers",
    multiple=True,
    metavar="URL",
    type=ALERTMANAGER_URL,
    help="Send findings there as alerts, and allow this in the NetworkPolicy; repeat for each "
    "peer.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="How many pods: one is active and the others stand by; with --ha all answer. "
    "[default: 2, or 3 with --ha]",
)
@timeout("3m", "How long each phase may take.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml"]),
    help="Print the manifests, and install nothing.",
)
@_changes_installation
def install(*, dry_run: bool, output: str | None, yes: bool, **flags: Any) -> None:
    """Install genguard into a cluster, step by step, and check each step.

    It starts the server, checks that the API server reaches it over TLS, registers it for a trial
    namespace and checks that it answers, and then does the same for the whole cluster. When a step
    fails or is interrupted, the registrations are put back as they were. Run the command again to
    continue.

    The exit code is 0 when it is installed, 1 when that could not be done, 2 when the command line
    is wrong.
    """
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
    connect, seconds = Access(flags["kubeconfig"], flags["context"]).connected, flags["seconds"]
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
        _refuse_others(flags, (*_ANYWHERE, "url", "ca_file"), f"with --url, {why}")
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


@click.command(epilog=examples("uninstall"))
@click.option(
    "--registrations-only",
    is_flag=True,
    help="The off switch: no write is sent to genguard any more, and the server stays.",
)
@timeout("3m", "How long to wait until all is gone.")
@_changes_installation
def uninstall(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    registrations_only: bool,
    seconds: float,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove genguard from a cluster.

    The registrations go first, so that no write waits for a server that is gone. Nothing is left
    behind; only the namespace stays when it holds anything that is not genguard's.

    The exit code is 0 when it is gone, 1 when that could not be done, 2 when the command line is
    wrong.
    """
    connect = Access(kubeconfig, context).connected
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
