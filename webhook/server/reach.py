"""Where a short-lived listener listens, and how the API server reaches it."""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Reach:
    """Where to listen, and what the API server dials; port 0 is any free one."""

    address: str
    port: int
    host: str
    dialled: int

    @classmethod
    def of(cls, url: str | None, listen_on: str | None, server: str) -> "Reach":
        """From --url and --listen, and the API server's own URL.

        Raises ValueError for what is no URL or address.
        """
        own = _own_address(server)
        given = urlsplit(url or "")
        listen = urlsplit(f"//{listen_on or ''}")
        dialled = (given.port or 443) if url else 0
        address = listen.hostname or ("0.0.0.0" if url else own)  # noqa: S104 - asked for
        return cls(address, listen.port or dialled, given.hostname or own, dialled)

    def url(self, port: int) -> str:
        """What the API server dials, when `port` is what we listen on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.dialled or port}"

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names for the certificate."""
        return () if self.ips else (self.host,)

    @property
    def ips(self) -> tuple[str, ...]:
        """IP addresses for the certificate."""
        try:
            return (str(ip_address(self.host)),)
        except ValueError:
            return ()


def _own_address(server: str) -> str:
    """Find this machine's address on the way to the API server: in a pod, the pod's."""
    found = urlsplit(server)
    try:
        info = socket.getaddrinfo(found.hostname, found.port or 443, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, to = info[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(to)  # sends nothing: it only asks for the route
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
