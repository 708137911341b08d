"""Where and how the server listens."""

from dataclasses import dataclass, field
from pathlib import Path

from webhook.server.limits import Limits


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the flags of `serve` say; paths as given, ports 0 for any free one."""

    bind_address: str = "127.0.0.1"
    secure_port: int = 8443
    ops_address: str = "127.0.0.1"
    ops_port: int = 8080
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    names: tuple[str, ...] = ()
    record: Path | None = None
    limits: Limits = field(default_factory=Limits)
