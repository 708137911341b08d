"""Where and how the server listens, and to whom its ops port shows what."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from certs import LEAF_LIFETIME
from webhook.server.limits import Limits
from webhook.server.tls import HeldPair

LOOPBACK: Final = "loopback"
KUBERNETES: Final = "kubernetes"
TOKEN_FILE: Final = "token-file"  # noqa: S105 - the word of a flag


class BadOpsAuthError(ValueError):
    """The value of `--ops-auth` is unknown; the message says which values there are."""


class OpsAuth(NamedTuple):
    """How clients of the ops port are authorized; `file` is for TOKEN_FILE."""

    way: str = LOOPBACK
    file: Path = Path()


def parse_ops_auth(text: str) -> OpsAuth:
    """`loopback`, `kubernetes` or `token-file=FILE`; raises BadOpsAuthError."""
    way, _, file = text.partition("=")
    if (way == TOKEN_FILE and file) or text in (LOOPBACK, KUBERNETES):
        return OpsAuth(way, Path(file))
    raise BadOpsAuthError(f"--ops-auth {text}: it is {LOOPBACK}, {KUBERNETES} or {TOKEN_FILE}=FILE")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the flags of `serve` say; paths as given, ports 0 for any free one.

    pair      comes before cert_file and key_file, these before cert_dir
    lifetime  of a certificate that is made in cert_dir
    shutdown_delay  seconds after SIGTERM in which the server is ready and takes new connections
    client_ca_file  whose certificates a client must have, of one of client_names if there are any
    """

    bind_address: str = "127.0.0.1"
    secure_port: int = 8443
    ops_address: str = "127.0.0.1"
    ops_port: int = 8080
    ops_tls: bool = False
    ops_auth: OpsAuth = field(default_factory=OpsAuth)
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    names: tuple[str, ...] = ()
    lifetime: timedelta = LEAF_LIFETIME
    pair: HeldPair | None = None
    client_ca_file: Path | None = None
    client_names: frozenset[str] = frozenset()
    record: Path | None = None
    shutdown_delay: float = 0.0
    limits: Limits = field(default_factory=Limits)
