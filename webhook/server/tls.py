"""Serve the newest good certificate, and never a pair that was not tried first.

Reads   a pair of files or of a Secret; `at` is an argument
Result  `context`, for the listener's whole life
Relies  on OpenSSL calling the server name callback for every ClientHello, with or without a name

Each pair gets a context of its own, and the listener's context hands every new handshake to the
current one. Loading a pair into the live context instead has two faults, both measured: a pair
that does not match leaves the context broken for every later handshake, and a pair with another
type of key is added beside the old one, which goes on being served.

Connections that are open keep the certificate they began with: TLS shows it once. Whoever rotates
an authority closes idle connections after a reload (kubevirt/kubevirt#15210).
"""

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from certs import CertificateError, PairFiles, PairSnapshot, inspect
from certs.inspect import Part
from certs.pem import CA_FILE, CERT_FILE, KEY_FILE

_HAS_MEMORY_FILES: Final = hasattr(os, "memfd_create")
# For TLS 1.2; every suite of TLS 1.3 is AEAD with forward secrecy.
_CIPHERS: Final = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"


_EVERY_SECONDS: Final = 0.1
_FILES: Final[Mapping[Part, str]] = {"certificate": CERT_FILE, "key": KEY_FILE, "ca": CA_FILE}


class HeldPair:
    """The pair that was last seen in a Secret; until then that of files, where they are given."""

    def __init__(self, secret: str, first: PairFiles | None = None) -> None:
        """`secret` is how kubectl names it: genguard-tls -n genguard-system."""
        self._secret: Final = secret
        self._first: Final = first
        self._held: Mapping[str, bytes] | None = None

    def take(self, held: Mapping[str, bytes]) -> None:
        """Remember the present contents of the Secret."""
        self._held = held

    def read(self) -> PairSnapshot:
        """Read the present pair; raises CertificateError where there is none."""
        if self._held is None:
            if self._first is not None:
                return self._first.read()
            raise CertificateError(f"secret {self._secret} has not been seen yet")
        for name in (CERT_FILE, KEY_FILE):
            if not self._held.get(name):
                raise CertificateError(f"secret {self._secret} has no {name}")
        return PairSnapshot.of(self._held)

    def location(self, part: Part) -> str:
        """Where a part of the pair is, for messages to those who have to repair it."""
        if self._held is None and self._first is not None:
            return self._first.location(part)
        return f"secret {self._secret}: {_FILES[part]}"


PairSource = PairFiles | HeldPair
"""Where the pair comes from: files, or a Secret."""


class ServingCertificate:
    """The certificate that the listener presents: the newest pair of its source that was good.

    warnings  what is wrong with it, though it can be used

    Not for use from two threads. A reload reads three small files and, when they changed, costs
    about a millisecond, so the event loop's own thread may call it.
    """

    def __init__(self, source: PairSource, *, at: datetime, client_ca: str | None = None) -> None:
        """`client_ca`: authorities of clients in PEM, for `guarded`.

        Raise CertificateError when there is no usable pair to begin with.
        """
        self._source = source
        self._client_ca = client_ca
        self._use(source.read(), at)
        self.context: Final = _settings()
        self.context.sni_callback = self._hand_over

    def guarded(self) -> ssl.SSLContext:
        """Make the context of a listener that takes only clients whom `client_ca` has signed.

        TLS 1.3 alone, which every API server speaks: a session of TLS 1.2 that is resumed is not
        checked again, and would outlive the authority that vouched for it.
        """
        context = _settings()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.sni_callback = self._hand_over
        return context

    def trust_clients(self, client_ca: str) -> None:
        """Have new handshakes of `guarded` go by these authorities and no others."""
        self._client_ca = client_ca
        self._current = self._load(self._pair)

    def reload_if_changed(self, at: datetime) -> bool:
        """Read the source, and serve its pair when it is new and good; False if it is the same.

        Raises CertificateError if the source holds no usable pair; the last good one is served on.
        The message of one fault is the same at every reload, so that it can be logged only once.
        """
        pair = self._source.read()
        if pair == self._pair:
            return False
        # A refused pair is tried again each time: time alone can make it valid.
        self._use(pair, at)
        return True

    def _use(self, pair: PairSnapshot, at: datetime) -> None:
        """Serve the pair from now on; raise why it is unusable."""
        found = inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at)
        where = self._source.location
        if found.details is None or found.errors:
            raise CertificateError("; ".join(f"{where(p.part)}: {p.message}" for p in found.errors))
        self._current = self._load(pair)
        self._pair: PairSnapshot = pair
        self.details = found.details
        self.warnings = tuple(f"{where(p.part)}: {p.message}" for p in found.problems)

    def _load(self, pair: PairSnapshot) -> ssl.SSLContext:
        context = _settings()
        try:
            with _as_file(pair.cert_pem + b"\n" + pair.key_pem) as path:
                context.load_cert_chain(path, password="")  # no key that asks for one gets here
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            message = f"OpenSSL refuses the pair ({reason}): issue it with P-256 and SHA-256"
            where = self._source.location("certificate")
            raise CertificateError(f"{where}: {message}") from error
        if self._client_ca is not None:
            # A chain is checked, and its subject told, by the context that a handshake goes on
            # with; whether a client is asked for one is decided by the context it began with.
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self._client_ca)
        return context

    def _hand_over(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext
    ) -> None:
        """Let the handshake go on with the current pair, whatever name was asked for."""
        del name, first
        connection.context = self._current


async def until_good(pair: HeldPair, seconds: float) -> None:
    """Wait until the pair can be served; raises CertificateError after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            ServingCertificate(pair, at=datetime.now(UTC))
        except CertificateError:
            if time.monotonic() >= end:
                raise
        else:
            return
        await asyncio.sleep(_EVERY_SECONDS)


def _settings() -> ssl.SSLContext:
    """Make a server's context without a certificate; the listener and each pair have the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    # The API server dials webhooks that are Services with HTTP/1.1 alone (kubernetes#75791).
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # No TLS 1.3 tickets: client-go keeps no session cache, so the two that OpenSSL sends after a
    # handshake are never used, and a resumed session would not look at the new certificate. With
    # TLS 1.2 tickets stay on, else OpenSSL keeps each session in a cache of 20,480.
    context.num_tickets = 0
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give the bytes a path, as OpenSSL wants one: in memory where the system can, else a file."""
    with (
        tempfile.NamedTemporaryFile()
        if not _HAS_MEMORY_FILES
        else os.fdopen(os.memfd_create("certificate"), "wb") as file
    ):
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if _HAS_MEMORY_FILES else file.name
