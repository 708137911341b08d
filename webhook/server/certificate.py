"""Keeps the served certificate current, and knows which clients are trusted.

Reads   the pair of a folder, of files or of a Secret, and a PEM file of authorities, again when
        they change; handshakes that failed; peers' subjects
Result  our own certificate is renewed, others are reloaded; whether a client is allowed; each
        refusal counted, each episode of refusals logged
Relies  on OpenSSL checking chain, dates and usage (clientAuth) of what a client presents
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

import certs
from certs import CertificateError, PairFileError
from certs.files import read_file
from webhook.server.overload import Episode
from webhook.server.settings import Settings
from webhook.server.tls import HeldPair, PairSource, ServingCertificate
from webhook.telemetry.logs import LOGGER

QUIET_SECONDS: Final = 60.0
"""An episode of refusals is over when nobody was refused for so long."""
_RENEWAL: Final = timedelta(hours=1)
_SHORTEST_RENEWAL: Final = 1 / 20
"""Share of the lifetime, where that is so short that an hour is much of it."""


class Refusal(StrEnum):
    """Why a client is refused, as metrics and the log name it."""

    NO_CERTIFICATE = "no_client_certificate"
    UNTRUSTED = "untrusted_client"
    NOT_ALLOWED = "client_not_allowed"


class Clients:
    """Which clients may use the admission port; all of them have presented a good certificate."""

    def __init__(self, names: frozenset[str], count: Callable[[str], None]) -> None:
        """`count` takes each Refusal.

        `names` are allowed common names of subjects; without any, every name is allowed. The API
        server takes its own callers so (--requestheader-allowed-names, kube-apiserver).
        """
        self._names: Final = names
        self._count: Final = count
        self.episode: Final = Episode(
            "clients are refused", "clients are no longer refused", QUIET_SECONDS
        )

    def allows(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the client, whose chain was checked in the handshake, has an allowed name."""
        if not self._names or names_of(transport.get_extra_info("peercert")) & self._names:
            return True
        self._refuse(Refusal.NOT_ALLOWED)
        return False

    def refuse_handshake(self, error: OSError) -> None:
        """Count a handshake that failed for the certificate of a client."""
        if isinstance(error, ssl.SSLCertVerificationError):
            self._refuse(Refusal.UNTRUSTED)
        elif getattr(error, "reason", "") == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self._refuse(Refusal.NO_CERTIFICATE)

    def _refuse(self, refusal: Refusal) -> None:
        self._count(refusal)
        self.episode.count(refusal)


def names_of(certificate: dict[str, object] | None) -> frozenset[str]:
    """The common names of a certificate's subject, as ssl.SSLObject.getpeercert gives them."""
    subject: object = (certificate or {}).get("subject", ())
    if not isinstance(subject, tuple):
        return frozenset()
    return frozenset(value for part in subject for name, value in part if name == "commonName")


class CertificateKeeper:
    """The certificate files or folder of the flags, and the certificate that is served."""

    def __init__(self, settings: Settings, held: HeldPair | None = None) -> None:
        """`held` comes before --tls-cert-file, and this before --cert-dir.

        Raise CertificateError or OSError when there is no usable certificate.
        """
        now = datetime.now(UTC)
        self._own: Path | None = None
        self._held: Final = held
        self._names: Final = ("localhost", *settings.dns_name)
        self._lifetime: Final = timedelta(seconds=settings.cert_lifetime)
        self._renewal: Final = min(_RENEWAL, self._lifetime * _SHORTEST_RENEWAL)
        self._next_renewal = now + self._renewal
        self._told: Final[dict[str, str]] = {}
        self._client_file: Final = settings.client_ca_file
        self._client_ca = None if self._client_file is None else read_authorities(self._client_file)
        source = held or self._source(settings, now)
        self.serving: Final = ServingCertificate(source, at=now, client_ca=self._client_ca)
        _warn(self.serving.first_warnings)

    def _source(self, settings: Settings, now: datetime) -> PairSource:
        if settings.tls_cert_file is not None and settings.tls_private_key_file is not None:
            return certs.PairFiles.beside(settings.tls_cert_file, settings.tls_private_key_file)
        self._own = settings.own_folder
        self._ensure(self._own, now)
        return certs.PairFiles.in_folder(self._own)

    async def changed(self, seconds: float) -> None:
        """Wait so many seconds, or less where the Secret changes earlier."""
        if self._held is not None:
            await self._held.changed(seconds)
        else:
            await asyncio.sleep(seconds)

    def refresh(self, now: datetime) -> bool:
        """Renew and reload what is due; what cannot be used leaves the last good one.

        True when another certificate is served, or other clients are trusted, from now on.
        """
        trusts_others = self._tries("client authority refused", self._reload_authorities, now)
        # A clock that was put back may have had one made that is not valid yet.
        is_put_back = now < self._next_renewal - self._renewal
        if self._own is not None and (now >= self._next_renewal or is_put_back):
            self._next_renewal = now + self._renewal
            try:
                self._ensure(self._own, now)
            except (CertificateError, OSError) as error:
                LOGGER.error("certificate not renewed", extra={"facts": {"reason": str(error)}})
        return self._tries("certificate refused", self._reload_pair, now) or trusts_others

    def _tries(self, message: str, step: Callable[[datetime], bool], now: datetime) -> bool:
        """Take a step; log once why it cannot be taken."""
        reason = ""
        try:
            return step(now)
        except CertificateError as error:
            reason = str(error)
            if self._told.get(message) != reason:
                LOGGER.error(message, extra={"facts": {"reason": reason}})
            return False
        finally:
            self._told[message] = reason

    def _reload_authorities(self, _: datetime) -> bool:
        if self._client_file is None:
            return False
        pem = read_authorities(self._client_file)
        if pem == self._client_ca:
            return False
        self._client_ca = pem
        self.serving.trust_clients(pem)
        facts = {"file": str(self._client_file)}
        LOGGER.info("client authority reloaded", extra={"facts": facts})
        return True

    def _reload_pair(self, now: datetime) -> bool:
        warnings = self.serving.reload_if_changed(now)
        if warnings is None:
            return False
        _warn(warnings)
        facts = {"certificate": self.serving.fingerprint}
        LOGGER.info("certificate reloaded", extra={"facts": facts})
        return True

    def _ensure(self, folder: Path, now: datetime) -> None:
        made = certs.ensure(folder, names=self._names, at=now, leaf_lifetime=self._lifetime)
        facts = {"folder": str(folder), "action": made.action, "reason": made.reason}
        if made.action != "kept":
            LOGGER.info("certificate made", extra={"facts": facts})
        elif made.reason:
            LOGGER.warning("certificate due for renewal", extra={"facts": facts})


def read_authorities(file: Path) -> str:
    """The authorities of `--client-ca-file`, in PEM; raises CertificateError where it has none."""
    content = read_file(file)
    if content is None:
        raise PairFileError(file, "is not there: name the API server's client CA")
    try:
        pem = content.decode("ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(cadata=pem)
    except (ValueError, ssl.SSLError) as error:  # not ASCII, empty, or no certificate in it
        reason = "holds no certificates in PEM (-----BEGIN CERTIFICATE-----)"
        raise PairFileError(file, reason) from error
    if not context.cert_store_stats()["x509_ca"]:
        raise PairFileError(
            file, "holds no authority: give the one that signs the API server's clients"
        )
    return pem


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        LOGGER.warning("certificate", extra={"facts": {"reason": warning}})
