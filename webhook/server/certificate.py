"""Keeps the served certificate current, and knows which clients are trusted.

Reads   the pair of a folder, of files or of a Secret, and a PEM file of authorities, again when
        they change; handshakes that failed; peers' subjects
Result  our own certificate is renewed, others are reloaded; whether a client is allowed; each
        refusal counted, each episode of refusals logged
Relies  on OpenSSL checking chain, dates and usage (clientAuth) of what a client presents
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import certs
from certs import CertificateError, PairFileError, PairFiles
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


class ClientRejection(StrEnum):
    """Why a client is refused, as metrics and the log name it."""

    NO_CERTIFICATE = "no_client_certificate"
    UNTRUSTED = "untrusted_client"
    NOT_ALLOWED = "client_not_allowed"


class Clients:
    """Which clients may use the admission port; all of them have presented a good certificate."""

    def __init__(self, names: frozenset[str], count: Callable[[str], None]) -> None:
        """`count` takes each ClientRejection.

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
        self._refuse(ClientRejection.NOT_ALLOWED)
        return False

    def refuse_handshake(self, error: OSError) -> None:
        """Count a handshake that failed for the certificate of a client."""
        if isinstance(error, ssl.SSLCertVerificationError):
            self._refuse(ClientRejection.UNTRUSTED)
        elif getattr(error, "reason", "") == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self._refuse(ClientRejection.NO_CERTIFICATE)

    def _refuse(self, rejection: ClientRejection) -> None:
        self._count(rejection)
        self.episode.count(rejection)


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """The common names of a certificate's subject, as ssl.SSLObject.getpeercert gives them."""
    subject = (certificate or {}).get("subject", ())
    return frozenset(value for part in subject for name, value in part if name == "commonName")


class CertificateKeeper:
    """The certificate files or folder of the flags, and the certificate that is served."""

    def __init__(self, settings: Settings, held: HeldPair | None = None) -> None:
        """`held` comes before --tls-cert-file, and this before --cert-dir.

        Raise CertificateError or OSError when there is no usable certificate.
        """
        now = datetime.now(UTC)
        self._own: Path | None = None
        self._names: Final = ("localhost", *settings.dns_name)
        self._lifetime: Final = timedelta(seconds=settings.cert_lifetime)
        self._renewal: Final = min(_RENEWAL, self._lifetime * _SHORTEST_RENEWAL)
        self._next_renewal = now
        self._told: Final[dict[str, str]] = {}
        self._client_file: Final = settings.client_ca_file
        self._client_ca = None if self._client_file is None else read_authorities(self._client_file)
        source: PairSource | None = held or files_of(settings)
        if source is None:
            self._own = settings.own_folder
            self._renew(now)
            source = PairFiles.in_folder(self._own)
        self.serving: Final = ServingCertificate(source, at=now, client_ca=self._client_ca)
        self._warn()

    def refresh(self, now: datetime) -> bool:
        """Renew and reload what is due; what cannot be used leaves the last good one.

        True when another certificate is served, or other clients are trusted, from now on.
        """
        steps = {
            "client authority refused": self._reload_authorities,
            "certificate not renewed": self._renew,
            "certificate refused": self._reload_pair,
        }
        is_another = False
        for message, step in steps.items():
            try:
                is_another, reason = step(now) or is_another, ""
            except (CertificateError, OSError) as error:
                reason = str(error)
                if self._told.get(message) != reason:  # once
                    LOGGER.error(message, extra={"fields": {"reason": reason}})
            self._told[message] = reason
        return is_another

    def _renew(self, now: datetime) -> bool:
        # A clock that was put back may have had one made that is not valid yet.
        is_due = now >= self._next_renewal or now < self._next_renewal - self._renewal
        if self._own is None or not is_due:
            return False
        self._next_renewal = now + self._renewal
        made = certs.ensure(self._own, names=self._names, at=now, leaf_lifetime=self._lifetime)
        fields = {"folder": str(self._own), "action": made.action, "reason": made.reason}
        if made.action != "kept":
            LOGGER.info("certificate made", extra={"fields": fields})
        elif made.reason:
            LOGGER.warning("certificate due for renewal", extra={"fields": fields})
        return False  # it is served once it was read

    def _reload_authorities(self, _: datetime) -> bool:
        if self._client_file is None:
            return False
        pem = read_authorities(self._client_file)
        if pem == self._client_ca:
            return False
        self._client_ca = pem
        self.serving.trust_clients(pem)
        LOGGER.info("client authority reloaded", extra={"fields": {"file": str(self._client_file)}})
        return True

    def _reload_pair(self, now: datetime) -> bool:
        if not self.serving.reload_if_changed(now):
            return False
        self._warn()
        fields = {"certificate": self.serving.details.fingerprint}
        LOGGER.info("certificate reloaded", extra={"fields": fields})
        return True

    def _warn(self) -> None:
        for reason in self.serving.warnings:
            LOGGER.warning("certificate", extra={"fields": {"reason": reason}})


def files_of(settings: Settings) -> PairFiles | None:
    """Return the pair of `--tls-cert-file` and `--tls-private-key-file`; None without them."""
    if settings.tls_cert_file is None or settings.tls_private_key_file is None:
        return None
    return PairFiles.beside(settings.tls_cert_file, settings.tls_private_key_file)


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
