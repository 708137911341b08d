"""The flags of `genguard serve`, each declared once, and what follows from them.

flags.py makes options and rows of the documents out of these declarations.
"""
# ruff: noqa: RUF009 - flag() makes a dataclasses.field

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.objects.intended import CONDITIONS, OWN, parse_restored
from genguard.review_setup import GenerationPatch, ReviewOptions
from genguard.status.counts import MOST_SUMMARIES
from webhook.files.given import load_definitions
from webhook.files.rules import parse_location
from webhook.server.access import is_loopback
from webhook.server.flags import ALERTMANAGER_URL, FILE, FOLDER, NAMES, RUNBOOK_URL, duration, flag

_YEAR_HOURS: Final = 8_760
_PORT: Final = click.IntRange(0, 65535)
_OF_CLUSTER: Final = (
    *("cert_secret", "events", "watch", "watch_fights", "standby", "findings_configmap", "heal"),
)
"""Flags that need a cluster."""
LOOPBACK: Final = "loopback"
KUBERNETES: Final = "kubernetes"
TOKEN_FILE: Final = "token-file="  # noqa: S105 - the word of a flag


class BadSettingsError(ValueError):
    """Flags of `serve` contradict each other; the message names the flag and what to do."""


def _address_from(variable: str) -> Callable[[], str]:
    """The default of an address: what an environment variable says, else 127.0.0.1.

    Command line and --config win over the environment, which the image sets.
    """
    return lambda: os.environ.get(variable) or "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The flags of `genguard serve`, each declared once."""

    audit_only: bool = flag(default=False)
    generation_patch: str = flag("auto", type=click.Choice([*map(str, GenerationPatch)]))
    restore: str = flag(f"{OWN},{CONDITIONS}", metavar="FIELD,...")
    flip_status: tuple[str, ...] = flag("", metavar="KIND,...", type=NAMES)
    bind_address: str = flag(_address_from("GENGUARD_BIND_ADDRESS"))
    secure_port: int = flag(8443, type=_PORT)
    tls_cert_file: Path | None = flag(None, type=FILE)
    tls_private_key_file: Path | None = flag(None, type=FILE)
    cert_dir: Path | None = flag(None, type=FOLDER)
    cert_secret: str | None = flag(None, metavar="NAME")
    cert_lifetime: float = flag("30d", type=duration(_YEAR_HOURS))
    client_ca_file: Path | None = flag(None, type=FILE)
    client_name: tuple[str, ...] = flag("", metavar="NAME,...", type=NAMES)
    dns_name: tuple[str, ...] = flag((), multiple=True)
    ops_address: str = flag(_address_from("GENGUARD_OPS_ADDRESS"))
    ops_port: int = flag(8080, type=_PORT)
    shutdown_delay: float = flag("0s", type=duration(1, or_none=True))
    ops_auth: str = flag(LOOPBACK, metavar="loopback|kubernetes|token-file=FILE")
    ops_tls: bool = flag(default=False)
    kubeconfig: str | None = flag(None, metavar="FILE|in-cluster")
    cluster_name: str = flag("", metavar="NAME")
    watch: str = flag("", metavar="RESOURCE,...")
    watch_fights: str = flag("", metavar="RESOURCE,...")
    rules: str = flag("", metavar="FILE|configmap:[NAMESPACE/]NAME")
    object_metrics: int = flag(0, metavar="MOST", type=click.IntRange(0))
    summary_metrics: int = flag(0, metavar="MOST", type=click.IntRange(0, MOST_SUMMARIES))
    server_version: str = flag(DEFAULT_SERVER_VERSION)
    crds: Path | None = flag(None, type=FILE)
    store: str = flag("memory", metavar="memory|sqlite:PATH|valkey://HOST/DB")
    show_values: bool = flag(default=False)
    standby: bool = flag(default=False)
    findings_configmap: str | None = flag(None, metavar="NAME")
    heal: bool = flag(default=False)
    registrations: str = flag("fixed", type=click.Choice(["fixed", "follow"]))
    record: Path | None = flag(None, type=FILE)
    alertmanager: tuple[str, ...] = flag((), metavar="URL", multiple=True, type=ALERTMANAGER_URL)
    runbook_url: str | None = flag(None, metavar="URL", type=RUNBOOK_URL)
    events: bool = flag(default=False)
    log_level: str = flag("INFO", type=click.Choice(["DEBUG", "INFO", "WARNING"]))

    def check(self) -> None:
        """Raise BadSettingsError when flags contradict each other."""
        location = parse_location(self.rules)
        of_cluster = {
            **{f"--{name.replace('_', '-')}": getattr(self, name) for name in _OF_CLUSTER},
            "--ops-auth kubernetes": self.ops_auth == KUBERNETES,
            "--store valkey://": self.shares,
            "--registrations follow": self.follows,
            "--rules configmap:...": location is not None and location.file is None,
        }
        for flag_of_cluster, is_given in of_cluster.items():
            if is_given and not self.kubeconfig:
                raise BadSettingsError(f"{flag_of_cluster} needs a cluster: give --kubeconfig")
        if self.ops_auth not in (LOOPBACK, KUBERNETES) and self.token_file is None:
            ways = f"{LOOPBACK}, {KUBERNETES} or {TOKEN_FILE}FILE"
            raise BadSettingsError(f"--ops-auth {self.ops_auth}: it is {ways}")
        if self.heal and self.audit_only:
            raise BadSettingsError("--heal changes objects and --audit-only nothing: leave one out")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise BadSettingsError("--tls-cert-file and --tls-private-key-file go together")
        if self.client_name and not self.client_ca_file:
            raise BadSettingsError("--client-name is of a certificate: give --client-ca-file")
        if self.cert_dir and (self.tls_cert_file or self.cert_secret):
            raise BadSettingsError("give one of --cert-dir, --tls-cert-file and --cert-secret")
        if self.object_metrics and not self.watch:
            raise BadSettingsError("--object-metrics shows what is watched: give --watch")

    @property
    def own_folder(self) -> Path:
        """The folder of a self-made certificate: --cert-dir, or one where XDG keeps state."""
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return self.cert_dir or Path(state) / "genguard" / "certs"

    @property
    def token_file(self) -> Path | None:
        """The file of --ops-auth token-file=FILE."""
        name = self.ops_auth.removeprefix(TOKEN_FILE)
        return Path(name) if name and name != self.ops_auth else None

    @property
    def shares(self) -> bool:
        """Whether replicas share a store."""
        return self.store.startswith(("valkey", "redis"))

    @property
    def follows(self) -> bool:
        """Whether this server keeps the registrations."""
        return self.registrations == "follow"

    @property
    def needs_leader(self) -> bool:
        """Whether there is work that only one of several replicas does."""
        needs = self.cert_secret, self.standby, self.findings_configmap, self.heal
        return any(needs) or self.follows or self.shares

    @property
    def runbooks(self) -> str:
        """The URL below which each runbook is; by default as the dashboard is reached."""
        if self.runbook_url:
            return self.runbook_url
        address = self.ops_address
        is_address = not is_loopback(address) and address not in ("", "0.0.0.0", "::")  # noqa: S104
        host = address if is_address and self.ops_auth != LOOPBACK else "localhost"
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.ops_tls else 'http'}://{shown}:{self.ops_port}/runbooks"

    def review_options(self) -> ReviewOptions:
        """What decides how reviews are examined; reads the file of --crds. Raises BadFileError."""
        return ReviewOptions(
            audit_only=self.audit_only,
            generation_patch=GenerationPatch(self.generation_patch),
            server_version=self.server_version,
            restored=parse_restored(self.restore),
            flipped_resources=self.flip_status,
            connects=bool(self.kubeconfig),
            custom_resources=load_definitions(self.crds) if self.crds else (),
        )
