"""`genguard serve`: the admission server."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

import certs
from webhook.cli.config_file import read_config
from webhook.cli.duration import duration
from webhook.cli.environment import address_from, cert_dir
from webhook.cli.event_loop import AUTO, EVENT_LOOPS, loop_factory
from webhook.cli.url import alertmanager_urls
from webhook.compose import (
    BadFileError,
    GenerationPatch,
    JudgeOptions,
    load_definitions,
)
from webhook.generation.strategy import UnknownServerVersionError
from webhook.generation.table import DEFAULT_SERVER_VERSION
from webhook.objects.intended import CONDITIONS, OWN, NotRestorableError, parse_restored
from webhook.rules.flip_status import NotFlippableError
from webhook.rules.shadow_generation import NotShadowableError
from webhook.server.options import (
    KUBERNETES,
    LOOPBACK,
    BadOpsAuthError,
    ServerOptions,
    parse_ops_auth,
)
from webhook.server.tokens import BadTokenFileError
from webhook.server.watching import NotWatchableError, parse_watched
from webhook.store.address import BadStoreError, parse_store
from webhook.verbs.serving import AlertOptions, ClusterOptions, run_server

_YEAR_HOURS = 8_760
_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@click.command(short_help="Serve admission reviews over TLS.")
@click.option("--audit-only", is_flag=True, help="Change nothing; say what would be done.")
@click.option(
    "--generation-patch",
    type=click.Choice([one.value for one in GenerationPatch]),
    default="auto",
    show_default=True,
    help="Patch metadata.generation; auto: unless a connected API server overrides it anyway.",
)
@click.option(
    "--restore",
    metavar="FIELD,...",
    default=f"{OWN},{CONDITIONS}",
    help="Status fields that are put back when another webhook clears what was sent. "
    "[default: every observedGeneration]",
)
@click.option(
    "--shadow-generation",
    metavar="RESOURCE,...",
    default="",
    help="Keep a generation in an annotation for these, whose server keeps none: services,...",
)
@click.option(
    "--flip-status",
    metavar="KIND,...",
    default="",
    help="When spec of these custom resources changes, write Ready=Unknown and Settled=False into "
    "their status in the same write: widgets.example.org,...",
)
@click.option(
    "--bind-address",
    default=address_from("GENGUARD_BIND_ADDRESS"),
    help="Where reviews arrive. [default: $GENGUARD_BIND_ADDRESS or 127.0.0.1]",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=8443,
    show_default=True,
    help="Its port, TLS; 0 is any.",
)
@click.option("--tls-cert-file", type=_FILE, help="Certificate to serve, with its chain; PEM.")
@click.option("--tls-private-key-file", type=_FILE, help="Its key; PEM.")
@click.option(
    "--cert-dir",
    type=_FOLDER,
    help="Folder of a self-made certificate, made if absent. "
    "[default: ~/.local/state/genguard/certs]",
)
@click.option(
    "--cert-secret",
    metavar="NAME",
    help="Serve the certificate of this Secret in the server's own namespace, and renew it; needs "
    "a cluster. --tls-cert-file is served until it has been read.",
)
@click.option(
    "--cert-lifetime",
    default="30d",
    show_default=True,
    callback=duration(_YEAR_HOURS),
    help="How long a certificate lives that is made here; it is renewed after two thirds.",
)
@click.option(
    "--client-ca-file",
    type=_FILE,
    help="Only clients with a certificate of these authorities may ask: the API server's; PEM.",
)
@click.option(
    "--client-name",
    "client_names",
    metavar="NAME,...",
    default="",
    help="And only those whose certificate has one of these common names.",
)
@click.option(
    "--dns-name",
    "dns_names",
    multiple=True,
    help="Another name for the self-made certificate; repeatable.",
)
@click.option(
    "--ops-address",
    default=address_from("GENGUARD_OPS_ADDRESS"),
    help="Dashboard, /api, /livez, /readyz, /metrics. "
    "[default: $GENGUARD_OPS_ADDRESS or 127.0.0.1]",
)
@click.option(
    "--ops-port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Its port; 0 is any.",
)
@click.option(
    "--shutdown-delay",
    default="0s",
    show_default=True,
    callback=duration(1, or_none=True),
    help="How long after SIGTERM new connections are still taken, each for one request.",
)
@click.option(
    "--ops-auth",
    metavar="loopback|kubernetes|token-file=FILE",
    default=LOOPBACK,
    show_default=True,
    help="Who may see dashboard and /api: connections within this host, or who brings a token, "
    "which /metrics takes then, too.",
)
@click.option(
    "--ops-tls", is_flag=True, help="Serve the ops port over TLS, with the same certificate."
)
@click.option(
    "--kubeconfig",
    metavar="FILE|in-cluster",
    help="Learn version and custom resources from this cluster.",
)
@click.option(
    "--watch",
    metavar="RESOURCE,...",
    default="",
    help="Watch these objects in all namespaces: pods,replicasets.apps,... Needs a cluster.",
)
@click.option(
    "--object-metrics",
    metavar="MOST",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Show metrics by name for so many watched objects of each kind.",
)
@click.option(
    "--server-version",
    default=DEFAULT_SERVER_VERSION,
    show_default=True,
    help="Whose rules hold while no cluster is connected.",
)
@click.option("--crds", type=_FILE, help="CustomResourceDefinitions, JSON or YAML.")
@click.option(
    "--store",
    metavar="memory|sqlite:PATH|valkey://HOST/DB",
    default="memory",
    show_default=True,
    help="A file keeps findings over a restart; a Valkey or Redis lets replicas judge as one.",
)
@click.option(
    "--findings-configmap",
    metavar="NAME",
    help="Keep open findings in this ConfigMap of the server's own namespace, for the pod that "
    "comes next; needs a cluster. A --store other than memory keeps them itself.",
)
@click.option(
    "--heal",
    is_flag=True,
    help="Put lost observedGeneration values back into stored objects, where genguard saw their "
    "writer send them; needs a cluster, and the right to patch status.",
)
@click.option("--record", type=_FILE, help="Append every review to this file, for replay.")
@click.option(
    "--alertmanager",
    "alertmanagers",
    multiple=True,
    metavar="URL",
    callback=alertmanager_urls,
    help="Send findings there as alerts; repeat for each peer.",
)
@click.option("--events", is_flag=True, help="Make Kubernetes Events of findings; needs a cluster.")
@click.option(
    "--event-loop",
    type=click.Choice([AUTO, *EVENT_LOOPS]),
    default=AUTO,
    show_default=True,
    help="What it runs on; auto: uvloop, which answers more with less, where it is installed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING"]),
    default="INFO",
    show_default=True,
    help="JSON on standard error.",
)
@click.option(
    "--config",
    type=_FILE,
    callback=read_config,
    is_eager=True,
    expose_value=False,
    help="YAML with these flags as keys.",
)
def serve(**flags: Any) -> None:
    """Serve admission reviews over TLS; with no flag it makes its own certificate and enforces.

    The exit code is 0 after SIGTERM or SIGINT, 1 when it cannot serve: a port is taken, a
    certificate is bad; 2 when the command line is wrong.
    """
    _check(flags)
    new_loop = loop_factory(flags["event_loop"])
    try:
        judge = JudgeOptions(
            audit_only=flags["audit_only"],
            generation_patch=GenerationPatch(flags["generation_patch"]),
            shadow_resources=_names(flags["shadow_generation"]),
            server_version=flags["server_version"],
            restored=parse_restored(flags["restore"]),
            flipped_resources=_names(flags["flip_status"]),
            connects=bool(flags["kubeconfig"]),
            custom_resources=load_definitions(flags["crds"]) if flags["crds"] else (),
        )
        server = ServerOptions(
            bind_address=flags["bind_address"],
            secure_port=flags["secure_port"],
            ops_address=flags["ops_address"],
            ops_port=flags["ops_port"],
            ops_tls=flags["ops_tls"],
            ops_auth=parse_ops_auth(flags["ops_auth"]),
            cert_file=flags["tls_cert_file"],
            key_file=flags["tls_private_key_file"],
            cert_dir=flags["cert_dir"] or cert_dir(),
            names=("localhost", *flags["dns_names"]),
            lifetime=timedelta(seconds=flags["cert_lifetime"]),
            client_ca_file=flags["client_ca_file"],
            client_names=frozenset(_names(flags["client_names"])),
            record=flags["record"],
            shutdown_delay=flags["shutdown_delay"],
        )
        alerts = AlertOptions(tuple(flags["alertmanagers"]), events=flags["events"])
        cluster = ClusterOptions(
            flags["kubeconfig"],
            parse_watched(flags["watch"]),
            flags["object_metrics"],
            flags["cert_secret"],
            flags["findings_configmap"],
            flags["heal"],
        )
        store = parse_store(flags["store"])
        serving = run_server(judge, server, alerts, cluster, store, log_level=flags["log_level"])
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serving)
    except (
        BadFileError,
        BadStoreError,
        BadOpsAuthError,
        BadTokenFileError,
        UnknownServerVersionError,
        NotFlippableError,
        NotShadowableError,
        NotRestorableError,
        NotWatchableError,
    ) as error:
        raise click.UsageError(str(error)) from error
    except (certs.CertificateError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _check(flags: dict[str, Any]) -> None:
    """Whether flags go together; raises click.UsageError."""
    if flags["ops_auth"] == KUBERNETES and not flags["kubeconfig"]:
        raise click.UsageError("--ops-auth kubernetes asks a cluster: give --kubeconfig")
    for name in ("cert_secret", "events", "watch", "findings_configmap", "heal"):
        if flags[name] and not flags["kubeconfig"]:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} needs a cluster: give --kubeconfig")
    if flags["heal"] and flags["audit_only"]:
        raise click.UsageError("--heal changes objects and --audit-only nothing: leave one out")
    if bool(flags["tls_cert_file"]) != bool(flags["tls_private_key_file"]):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if flags["client_names"] and not flags["client_ca_file"]:
        raise click.UsageError("--client-name is of a certificate: give --client-ca-file")
    if flags["tls_cert_file"] and flags["cert_dir"]:
        raise click.UsageError("give either --tls-cert-file or --cert-dir")
    if flags["cert_secret"] and flags["cert_dir"]:
        raise click.UsageError("give either --cert-secret or --cert-dir")
    if flags["object_metrics"] and not flags["watch"]:
        raise click.UsageError("--object-metrics shows what is watched: give --watch")
