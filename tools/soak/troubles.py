"""What goes wrong in a soak, again and again, and must leave nothing behind in the server."""

import itertools
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.controlplane.certificates import Authority
from tests.store.server import StoreServer

_NAME: Final = "server"
_SECONDS: Final = 10.0
_TROUBLE_SECONDS: Final = 20.0
_GARBAGE: Final = b"-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n"


class Handshakes:
    """TLS handshakes that fail, each in another way than the one before."""

    def __init__(self, port: int) -> None:
        self._port: Final = port
        self._ways: Final = itertools.cycle(_WAYS.values())
        self.failed = 0

    def fail(self) -> None:
        """One more. Raises AssertionError when it went well, and OSError when nobody listens."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=_SECONDS) as plain:
            next(self._ways)(plain)
        self.failed += 1


def _without_trust(plain: socket.socket) -> None:
    """As an API server does whose caBundle is another's: it says so in an alert."""
    _refused(plain, ssl.create_default_context())


def _without_common_ciphers(plain: socket.socket) -> None:
    """TLS 1.2 with what was usual ten years ago."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")
    _refused(plain, context)


def _plain_http(plain: socket.socket) -> None:
    plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    _closed(plain)


def _half_a_greeting(plain: socket.socket) -> None:
    """The head of a ClientHello, and no more."""
    plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    plain.shutdown(socket.SHUT_WR)
    _closed(plain)


def _away_at_once(plain: socket.socket) -> None:
    """As a TCP health check does."""


_WAYS: Final[Mapping[str, Callable[[socket.socket], None]]] = {
    "without trust": _without_trust,
    "without common ciphers": _without_common_ciphers,
    "plain HTTP": _plain_http,
    "half a greeting": _half_a_greeting,
    "away at once": _away_at_once,
}


def _refused(plain: socket.socket, context: ssl.SSLContext) -> None:
    try:
        context.wrap_socket(plain, server_hostname="localhost").close()
    except (ssl.SSLError, ConnectionError):
        return
    raise AssertionError("a handshake went well that must fail")


def _closed(plain: socket.socket) -> None:
    with suppress(ConnectionError):
        while plain.recv(4_096):
            pass


class Certificates:
    """The pair that is served: spoilt, and then another good one of the same authority."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._authority: Final = Authority()
        (folder / "ca.crt").write_bytes(self._authority.pair.certificate)
        self.context: Final = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self.files = self._write()

    def spoil(self) -> None:
        """Both files hold something, and it is no pair."""
        for file in self.files:
            file.write_bytes(_GARBAGE)

    def renew(self) -> None:
        """A good pair."""
        self._write()

    def is_served(self, port: int) -> bool:
        """Whether who connects now is shown the pair of the files."""
        with (
            socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as plain,
            self.context.wrap_socket(plain, server_hostname="localhost") as wire,
        ):
            shown = wire.getpeercert(binary_form=True)
        return shown == ssl.PEM_cert_to_DER_cert(self.files[0].read_text())

    def _write(self) -> tuple[Path, Path]:
        return self._authority.issue_server().write(self._folder, _NAME)


def troubles_of(
    certificates: Certificates, store: StoreServer, period: float, rounds: int
) -> Iterator[tuple[float, Callable[[], None]]]:
    """Once in each of so many periods of seconds, the certificate's first and then the store's.

    What happens, and how many seconds after the beginning.
    """
    lasts = min(0.4 * period, _TROUBLE_SECONDS)
    for number in range(rounds):
        start = number * period
        yield start, certificates.spoil
        yield start + lasts, certificates.renew
        yield start + 0.5 * period, store.kill
        yield start + 0.5 * period + lasts, store.start
