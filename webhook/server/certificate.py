"""Keeps the served certificate current: renews our own, reloads those that others renew."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import certs
from webhook.server.clients import ClientAuthority
from webhook.server.options import ServerOptions
from webhook.server.tls import PairSource, ServingCertificate
from webhook.telemetry.logs import LOGGER

_RENEWAL: Final = timedelta(hours=1)
_SHORTEST_RENEWAL: Final = 1 / 20
"""Share of the lifetime, where that is so short that an hour is much of it."""


class CertificateKeeper:
    """The certificate files or folder of the options, and the certificate that is served."""

    def __init__(self, options: ServerOptions) -> None:
        """Raise certs.CertificateError or OSError when there is no usable certificate."""
        now = datetime.now(UTC)
        self._own: Final = None if options.pair or options.cert_file else options.cert_dir
        self._held: Final = options.pair
        self._names: Final = options.names
        self._lifetime: Final = options.lifetime
        self._renewal: Final = min(_RENEWAL, options.lifetime * _SHORTEST_RENEWAL)
        self._next_renewal = now + self._renewal
        self._last_refusal = ""
        file = options.client_ca_file
        self._clients: Final = None if file is None else ClientAuthority(file)
        self.serving: Final = ServingCertificate(
            self._source(options, now),
            at=now,
            client_ca=None if self._clients is None else self._clients.pem,
        )
        _warn(self.serving.first_warnings)

    def _source(self, options: ServerOptions, now: datetime) -> PairSource:
        if options.pair is not None:
            return options.pair
        if options.cert_file is not None and options.key_file is not None:
            return certs.PairFiles.beside(options.cert_file, options.key_file)
        if self._own is None:
            raise ValueError("neither certificate files nor a folder for them")
        self._ensure(self._own, now)
        return certs.PairFiles.in_folder(self._own)

    async def changed(self, seconds: float) -> None:
        """Wait so many seconds, or less where the Secret changes earlier."""
        if self._held is not None:
            await self._held.changed(seconds)
        else:
            await asyncio.sleep(seconds)

    def refresh(self, now: datetime) -> bool:
        """Renew and reload what is due.

        True when another certificate is served, or other clients are trusted, from now on.
        """
        trusts_others = self._clients is not None and self._clients.changed()
        if self._clients is not None and trusts_others:
            self.serving.trust_clients(self._clients.pem)
        # A clock that was put back may have had one made that is not valid yet.
        is_put_back = now < self._next_renewal - self._renewal
        if self._own is not None and (now >= self._next_renewal or is_put_back):
            self._next_renewal = now + self._renewal
            try:
                self._ensure(self._own, now)
            except (certs.CertificateError, OSError) as error:
                LOGGER.error("certificate not renewed", extra={"facts": {"reason": str(error)}})
        try:
            warnings = self.serving.reload_if_changed(now)
        except certs.CertificateError as error:
            if str(error) != self._last_refusal:
                self._last_refusal = str(error)
                LOGGER.error("certificate refused", extra={"facts": {"reason": str(error)}})
            return trusts_others
        if warnings is None:
            return trusts_others
        self._last_refusal = ""
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


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        LOGGER.warning("certificate", extra={"facts": {"reason": warning}})
