"""Keeps the served certificate current: renews one of our own, picks up what others renew."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import certs
from webhook.server.options import ServerOptions
from webhook.server.tls import Refused, Reloaded, ServingCertificate
from webhook.telemetry.logs import LOGGER

_RENEWAL: Final = timedelta(hours=1)


class CertificateKeeper:
    """The certificate files or folder of the options, and what is served of them."""

    def __init__(self, options: ServerOptions) -> None:
        """Raise certs.CertificateError or OSError when there is no usable certificate."""
        now = datetime.now(UTC)
        self._own: Final = None if options.cert_file is not None else options.cert_dir
        self._names: Final = options.names
        self._next_renewal = now + _RENEWAL
        self._last_refusal = ""
        if options.cert_file is not None and options.key_file is not None:
            files = certs.PairFiles.beside(options.cert_file, options.key_file)
        elif self._own is not None:
            _ensure(self._own, self._names, now)
            files = certs.PairFiles.in_folder(self._own)
        else:
            raise ValueError("neither certificate files nor a folder for them")
        self.serving: Final = ServingCertificate(files, at=now)
        _warn(self.serving.first_warnings)

    def look(self, now: datetime) -> bool:
        """Renew and reload what is due; True when another certificate is served from now on."""
        if self._own is not None and now >= self._next_renewal:
            self._next_renewal = now + _RENEWAL
            try:
                _ensure(self._own, self._names, now)
            except (certs.CertificateError, OSError) as error:
                LOGGER.error("certificate not renewed", extra={"facts": {"reason": str(error)}})
        result = self.serving.reload_if_changed(now)
        if isinstance(result, Reloaded):
            self._last_refusal = ""
            _warn(result.warnings)
            facts = {"certificate": self.serving.fingerprint}
            LOGGER.info("certificate reloaded", extra={"facts": facts})
            return True
        if isinstance(result, Refused) and result.reason != self._last_refusal:
            self._last_refusal = result.reason
            LOGGER.error("certificate refused", extra={"facts": {"reason": result.reason}})
        return False


def _ensure(folder: Path, names: Iterable[str], now: datetime) -> None:
    made = certs.ensure(folder, names=tuple(names), at=now)
    facts = {"folder": str(folder), "action": made.action, "reason": made.reason}
    if made.action != "kept":
        LOGGER.info("certificate made", extra={"facts": facts})
    elif made.reason:
        LOGGER.warning("certificate due for renewal", extra={"facts": facts})


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        LOGGER.warning("certificate", extra={"facts": {"reason": warning}})
