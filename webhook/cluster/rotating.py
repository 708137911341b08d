"""Renews the pair in a Secret that replicas share, and the caBundles by which it is trusted.

What comes next is decided in certs/rotation.py; here the objects are read and written. Each write
carries the resourceVersion that was read, and the registrations are read before the Secret. So two
who do this at once do no harm: an authority that stands in a registration was in the Secret before
it, and whoever writes a registration without it has either seen the Secret after it was retired, or
has read the registration before it came, and is refused.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

import certs
from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of
from webhook.manifest.kustomize import Document
from webhook.manifest.rendering import INJECTORS, REGISTRATIONS, registration_of, secret_of

_MANAGER: Final = "genguard-certificate"
_OTHERS_SECRET: Final = "cert-manager.io/certificate-name"  # noqa: S105 - an annotation


class Calls(Protocol):
    """What a Rest does."""

    async def get(self, path: str) -> Any:
        """Read an object; raises RefusedError, or one of UNREACHED."""

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None
    ) -> Any:
        """One request; raises as `get` does."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """Which Secret, whose names, and how long a new certificate lives."""

    namespace: str
    secret: str
    names: tuple[str, ...]
    lifetime: timedelta


class Rotator:
    """One look after the other; it remembers since when it has seen each bundle, and no more."""

    def __init__(self, calls: Calls, rotated: Rotated, clock: Callable[[], datetime]) -> None:
        """`clock` gives the time in UTC."""
        self._calls: Final = calls
        self._rotated: Final = rotated
        self._clock: Final = clock
        self._seen: dict[str, tuple[object, datetime]] = {}

    async def look(self) -> certs.Step:
        """Look at all that counts and take one step; another one's write in between is no error.

        Raises RefusedError, one of UNREACHED, or CertificateError.
        """
        registrations = await self._registrations()
        trusting = tuple(self._trusting(registrations))
        secret = await self._calls.get(path_of(self._place))
        injected = _injected((*registrations.values(), secret))
        if injected:
            return certs.Leave(injected)
        files = decoded(secret)
        rotated, at = self._rotated, self._clock()
        step = certs.next_step(files, trusting, at, names=rotated.names)
        try:
            match step:
                case certs.Prepare():
                    made = certs.stage(
                        files, step, names=rotated.names, at=at, lifetime=rotated.lifetime
                    )
                    await self._put(secret | {"data": _encoded(made)})
                case certs.Promote() | certs.Tidy():
                    await self._put(secret | {"data": _encoded(step.files)})
                case certs.Spread():
                    for one in _spread(registrations, step):
                        await self._put(one)
                case _:
                    pass
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        return step

    @property
    def _place(self) -> Document:
        return secret_of(self._rotated.namespace, self._rotated.secret)

    async def _registrations(self) -> dict[str, Document]:
        """Those that are there, by name."""
        found: dict[str, Document] = {}
        for kind, name in REGISTRATIONS:
            try:
                found[name] = await self._calls.get(path_of(registration_of(kind, name)))
            except RefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return found

    def _trusting(self, registrations: Mapping[str, Document]) -> Iterator[certs.Trusting]:
        """Every webhook; one that was changed in between is seen anew."""
        now, before = self._clock(), self._seen
        self._seen = {}
        for name, registration in registrations.items():
            metadata = registration["metadata"]
            state = (metadata["uid"], metadata.get("generation"))
            known, since = before.get(name, (None, now))
            # Not at a time to come: the clock was put back.
            self._seen[name] = state, since if known == state and since <= now else now
            for webhook in registration.get("webhooks") or ():
                bundle = _bytes(webhook["clientConfig"].get("caBundle"))
                yield certs.Trusting(f"{name}/{webhook['name']}", bundle, self._seen[name][1])

    async def _put(self, document: Document) -> None:
        await self._calls.call(
            "PUT", path_of(document), document, params={"fieldManager": _MANAGER}
        )


def _spread(registrations: Mapping[str, Document], step: certs.Spread) -> Iterator[Document]:
    """The registrations with another bundle where the step says so."""
    bundle = base64.b64encode(step.bundle).decode()
    for name, registration in registrations.items():
        webhooks = registration.get("webhooks") or ()
        if any(f"{name}/{one['name']}" in step.names for one in webhooks):
            changed = [
                one | {"clientConfig": one["clientConfig"] | {"caBundle": bundle}}
                for one in webhooks
            ]
            yield registration | {"webhooks": changed}


def _injected(documents: Sequence[Document]) -> str:
    """Who sees to a bundle or to the Secret by itself; "" where nobody does."""
    for one in documents:
        annotations = one["metadata"].get("annotations") or {}
        for name in (*INJECTORS, _OTHERS_SECRET):
            if name in annotations:
                return f"{one['metadata']['name']} has the annotation {name}"
    return ""


def decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """What a Secret holds, by name."""
    return {name: _bytes(value) for name, value in (secret.get("data") or {}).items()}


def _encoded(files: certs.Files) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def _bytes(text: str | None) -> bytes:
    """What base64 stands for; nothing where it is none, which the API server would not store."""
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""
