"""Which clients are trusted: those with a certificate of a given authority, and an allowed name.

Reads   a PEM file of authorities, again when it changes; handshakes that failed; peers' subjects
Result  the authorities to trust; whether a client is allowed; each refusal counted, each episode of
        refusals logged
Relies  on OpenSSL checking chain, dates and usage (clientAuth) of what a client presents
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

from certs import CertificateError, PairUnreadableError
from certs.files import read_file
from webhook.telemetry.logs import LOGGER

QUIET_SECONDS: Final = 60.0
"""An episode of refusals is over when nobody was refused for so long."""


class Refusal(StrEnum):
    """Why a client is refused, as metrics and the log name it."""

    NO_CERTIFICATE = "no_client_certificate"
    UNTRUSTED = "untrusted_client"
    NOT_ALLOWED = "client_not_allowed"


class ClientAuthority:
    """The authorities of `--client-ca-file`: the newest of the file that were good."""

    def __init__(self, file: Path) -> None:
        """Raise CertificateError when the file holds none."""
        self._file: Final = file
        self._last_refusal = ""
        self.pem = self._read()

    def changed(self) -> bool:
        """Read the file again; True when other authorities are trusted from now on.

        While the file is not usable, the last good authorities are kept; why is logged once.
        """
        try:
            pem = self._read()
        except CertificateError as error:
            if str(error) != self._last_refusal:
                self._last_refusal = str(error)
                facts = {"reason": self._last_refusal}
                LOGGER.error("client authority refused", extra={"facts": facts})
            return False
        self._last_refusal = ""
        if pem == self.pem:
            return False
        self.pem = pem
        LOGGER.info("client authority reloaded", extra={"facts": {"file": str(self._file)}})
        return True

    def _read(self) -> str:
        content = read_file(self._file)
        if content is None:
            raise PairUnreadableError(self._file, "is not there: name the API server's client CA")
        try:
            pem = content.decode("ascii")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_verify_locations(cadata=pem)
        except (ValueError, ssl.SSLError) as error:  # not ASCII, empty, or no certificate in it
            reason = "holds no certificates in PEM (-----BEGIN CERTIFICATE-----)"
            raise PairUnreadableError(self._file, reason) from error
        if not context.cert_store_stats()["x509_ca"]:
            raise PairUnreadableError(
                self._file, "holds no authority: give the one that signs the API server's clients"
            )
        return pem


class Refusals:
    """Counts who is refused, and logs where an episode of refusals begins and ends."""

    def __init__(
        self, count: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`count` takes each Refusal; `clock` gives seconds."""
        self._count: Final = count
        self._clock: Final = clock
        self._last: float | None = None
        self._in_episode = 0

    def refuse(self, refusal: Refusal) -> None:
        """Count a client that is refused."""
        self._count(refusal)
        if self._last is None:
            self._in_episode = 0
            LOGGER.warning("clients are refused", extra={"facts": {"reason": refusal}})
        self._in_episode += 1
        self._last = self._clock()

    def end_if_quiet(self) -> None:
        """End an episode that is over; to be called every few seconds."""
        if self._last is None or self._clock() - self._last < QUIET_SECONDS:
            return
        facts = {"refused": self._in_episode}
        LOGGER.warning("clients are no longer refused", extra={"facts": facts})
        self._last = None


class Clients:
    """Which clients may use the admission port; all of them have presented a good certificate."""

    def __init__(self, names: frozenset[str], refusals: Refusals) -> None:
        """`names` are allowed common names of subjects; without any, every name is allowed.

        The API server takes its own callers so (--requestheader-allowed-names, kube-apiserver).
        """
        self._names: Final = names
        self.refusals: Final = refusals

    def allows(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the client, whose chain was checked in the handshake, has an allowed name."""
        if not self._names or names_of(transport.get_extra_info("peercert")) & self._names:
            return True
        self.refusals.refuse(Refusal.NOT_ALLOWED)
        return False

    def counting(self, context: ssl.SSLContext, probe: str) -> None:
        """Have `context` count the handshakes that fail for the client's certificate.

        Handshakes that ask for the server name `probe` are our own, and are not counted.
        """
        refusals = self.refusals

        class Counting(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except ssl.SSLCertVerificationError:
                    refusals.refuse(Refusal.UNTRUSTED)
                    raise
                except ssl.SSLError as error:
                    is_own = getattr(self, "asked_for", None) == probe
                    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE" and not is_own:
                        refusals.refuse(Refusal.NO_CERTIFICATE)
                    raise

        context.sslobject_class = Counting


def names_of(certificate: dict[str, object] | None) -> frozenset[str]:
    """The common names of a certificate's subject, as ssl.SSLObject.getpeercert gives them."""
    subject: object = (certificate or {}).get("subject", ())
    if not isinstance(subject, tuple):
        return frozenset()
    return frozenset(value for part in subject for name, value in part if name == "commonName")
