"""Renews the certificate in a Secret that replicas share, and has every caBundle trust it.

certs/renewal.py says what the Secret is to hold. The leader writes that, and its ca.crt into each
caBundle that differs, at least every LONGEST_SECONDS: that is how long a caBundle that somebody has
damaged stays. The other replicas look at the Secret each second, as they look at the Lease.

A new authority signs only once every caBundle has held it for SPREAD_SECONDS: an API server goes by
its informer's copy of a registration, usually less than a second old (apiserver
pkg/admission/configuration/mutating_webhook_manager.go).

Each write carries the resourceVersion that was read, and the registrations are read before the
Secret. So two replicas may do this at once: an authority in a registration was in the Secret
before. Whoever writes a registration without that authority has either read the Secret after it was
retired, or has read the registration before it was added: then the API server refuses the write.
"""

import base64
import binascii
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import certs
from genguard.linting.hook import INJECTORS
from webhook.cluster.rest import RefusedError, Rest, if_there
from webhook.election.leader import Leadership
from webhook.manifest.documents import Document, path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of
from webhook.telemetry.logs import LOGGER

_OTHERS_SECRET: Final = "cert-manager.io/certificate-name"  # noqa: S105 - an annotation
LONGEST_SECONDS: Final = 10.0
SPREAD_SECONDS: Final = 5.0
_SOON_SECONDS: Final = 1.0


@dataclass(slots=True)
class Certificates:
    """Mirrors the certificate in a Secret: `step` is that of a Reconciler.

    names       the DNS names of the certificate
    lifetime    of a new certificate
    now         gives the time in UTC
    clock       gives monotonic seconds
    leadership  who leads renews it; None: this replica does
    seen        is called with what the Secret holds
    """

    calls: Rest
    namespace: str
    secret: str
    names: tuple[str, ...]
    lifetime: timedelta
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    leadership: Leadership | None = None
    seen: Callable[[certs.Files], object] = bool
    _spread_at: float = float("-inf")
    _left: str = ""

    async def step(self) -> float:
        """Read the Secret, and write what is due; return the seconds until the next step.

        Raises RefusedError, one of UNREACHED, or CertificateError.
        """
        leads = self.leadership is None or self.leadership.is_leader
        registrations = await self._registrations() if leads else []
        secret = await self._secret()
        files = decoded(secret)
        self.seen(files)
        if not leads:
            return _SOON_SECONDS
        bundles = tuple(
            bundle for registration in registrations for bundle in _bundles(registration)
        )
        due = certs.renewal(
            files,
            bundles,
            self.now(),
            names=self.names,
            lifetime=self.lifetime,
            may_sign=self.clock() - self._spread_at >= SPREAD_SECONDS,
        )
        if left := _injected((*registrations, secret)) or due.left:
            if left != self._left:
                LOGGER.info("certificate is somebody else's", extra={"fields": {"reason": left}})
            self._left = left
            return LONGEST_SECONDS
        if due.files != files:
            data = {name: base64.b64encode(file).decode() for name, file in due.files.items()}
            await self._put(secret | {"data": data})
            done = "prepared" if due.files.get("tls.crt") == files.get("tls.crt") else "promoted"
            LOGGER.info(f"certificate {done}", extra={"fields": {"reason": due.reason}})
            self.seen(due.files)
        trusted = due.files.get("ca.crt", b"")
        for registration in registrations:
            if any(bundle != trusted for bundle in _bundles(registration)):
                self._spread_at = self.clock()
                await self._put(_inject(registration, trusted))
                name = {"configuration": registration["metadata"]["name"]}
                LOGGER.info("certificate trusted", extra={"fields": name})
        return _SOON_SECONDS if due.reason else LONGEST_SECONDS

    async def _secret(self) -> Document:
        path = path_of(secret_of(self.namespace, self.secret))
        found = await if_there(self.calls.call("GET", path))
        if found is None:
            text = f"there is no Secret {self.secret}; genguard install makes it"
            raise RefusedError(HTTPStatus.NOT_FOUND, text)
        return found

    async def _registrations(self) -> list[Document]:
        """Return the registrations that exist."""
        paths = [path_of(registration_of(*named)) for named in REGISTRATIONS]
        found = [await if_there(self.calls.call("GET", path)) for path in paths]
        return [document for document in found if document is not None]

    async def _put(self, document: Document) -> None:
        params = {"fieldManager": "genguard-certificate"}
        await self.calls.call("PUT", path_of(document), document, params=params)


def _bundles(registration: Document) -> Iterator[bytes]:
    """Yield the caBundle of each webhook, in PEM."""
    for webhook in registration.get("webhooks") or ():
        yield _bytes(webhook["clientConfig"].get("caBundle"))


def _inject(registration: Document, bundle: bytes) -> Document:
    """Return the registration with this caBundle in each webhook."""
    text = base64.b64encode(bundle).decode()
    webhooks = [
        webhook | {"clientConfig": webhook["clientConfig"] | {"caBundle": text}}
        for webhook in registration.get("webhooks") or ()
    ]
    return registration | {"webhooks": webhooks}


def _injected(documents: Sequence[Document]) -> str:
    """Return which other program manages a caBundle or the Secret; "" for none."""
    for document in documents:
        annotations = document["metadata"].get("annotations") or {}
        for name in (*INJECTORS, _OTHERS_SECRET):
            if name in annotations:
                return f"{document['metadata']['name']} has the annotation {name}"
    return ""


def decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the contents of a Secret by key."""
    return {name: _bytes(value) for name, value in (secret.get("data") or {}).items()}


def read_pair(secret: Mapping[str, Any] | None) -> certs.PairSnapshot | None:
    """Return the certificate and key in a Secret; None where it holds none."""
    found = decoded(secret or {})
    return certs.PairSnapshot.of(found) if {"tls.crt", "tls.key"} <= found.keys() else None


def _bytes(text: str | None) -> bytes:
    """Decode base64; return nothing for other text, which the API server would not store."""
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""
