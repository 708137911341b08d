"""Renews the certificate in a Secret that replicas share, and the caBundles that trust it.

certs/rotation.py decides the next step. Rotator reads and writes the objects of one step. Rotation
repeats the steps on the replica that leads, at least every LONGEST_SECONDS. That is how long a
caBundle that somebody has damaged stays. `follow_secret` watches the Secret, so that damaged
contents are repaired at once.

Each write carries the resourceVersion that was read, and the registrations are read before the
Secret. So two replicas may do this at once: an authority in a registration was in the Secret
before. Whoever writes a registration without that authority has either read the Secret after it was
retired, or has read the registration before it was added: then the API server refuses the write.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import msgspec

import certs
from genguard.linting.hook import INJECTORS
from webhook.cluster.rest import UNREACHED, Calls, RefusedError, Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, follow
from webhook.election.leader import Leadership
from webhook.manifest.documents import Document, path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of, secret_of
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

_MANAGER: Final = "genguard-certificate"
_OTHERS_SECRET: Final = "cert-manager.io/certificate-name"  # noqa: S105 - an annotation
LONGEST_SECONDS: Final = 10.0
_SHORTEST_SECONDS: Final = 0.2
"""Pause after a step that changed something, so that two replicas in conflict do not storm."""
_AGAIN_SECONDS: Final = 5.0
_FOLLOWING_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class RotatedSecret:
    """The Secret, the DNS names of its certificate, and the lifetime of a new certificate."""

    namespace: str
    secret: str
    names: tuple[str, ...]
    lifetime: timedelta


class Rotator:
    """Takes one step at a time. It remembers only since when it sees the registrations as now."""

    def __init__(self, calls: Calls, rotated: RotatedSecret, clock: Callable[[], datetime]) -> None:
        """`clock` gives the time in UTC."""
        self._calls: Final = calls
        self._rotated: Final = rotated
        self._clock: Final = clock
        self._seen: tuple[object, datetime] = (None, clock())

    async def take_step(self) -> certs.Step:
        """Read all objects and take the next step. A conflict with another writer is no error.

        Raises RefusedError, one of UNREACHED, or CertificateError.
        """
        registrations = await self._registrations()
        trust = self._trust(registrations)
        secret = await self._calls.call("GET", path_of(self._secret_reference))
        injected = _injected((*registrations, secret))
        if injected:
            return certs.Leave(injected)
        rotated = self._rotated
        step = certs.next_step(
            decoded(secret), trust, self._clock(), names=rotated.names, lifetime=rotated.lifetime
        )
        try:
            if isinstance(step, certs.Write):
                await self._put(secret | {"data": _encoded(step.files)})
            elif isinstance(step, certs.Spread):
                for one in registrations:
                    if any(bundle != step.bundle for bundle in _bundles(one)):
                        await self._put(_inject(one, step.bundle))
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        return step

    @property
    def _secret_reference(self) -> Document:
        return secret_of(self._rotated.namespace, self._rotated.secret)

    async def _registrations(self) -> list[Document]:
        """Return the registrations that exist."""
        found: list[Document] = []
        for kind, name in REGISTRATIONS:
            try:
                found.append(await self._calls.call("GET", path_of(registration_of(kind, name))))
            except RefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return found

    def _trust(self, registrations: Sequence[Document]) -> certs.Trust:
        """Return every caBundle, and since when all registrations are seen unchanged."""
        state = [
            (one["metadata"]["uid"], one["metadata"].get("generation")) for one in registrations
        ]
        now, (known, since) = self._clock(), self._seen
        # A time in the future means that the clock was set back.
        self._seen = state, since if known == state and since <= now else now
        bundles = (bundle for one in registrations for bundle in _bundles(one))
        return certs.Trust(tuple(bundles), self._seen[1])

    async def _put(self, document: Document) -> None:
        await self._calls.call(
            "PUT", path_of(document), document, params={"fieldManager": _MANAGER}
        )


def _bundles(registration: Document) -> Iterator[bytes]:
    """Yield the caBundle of each webhook, in PEM."""
    for webhook in registration.get("webhooks") or ():
        yield _bytes(webhook["clientConfig"].get("caBundle"))


def _inject(registration: Document, bundle: bytes) -> Document:
    """Return the registration with this caBundle in each webhook."""
    text = base64.b64encode(bundle).decode()
    webhooks = [
        one | {"clientConfig": one["clientConfig"] | {"caBundle": text}}
        for one in registration.get("webhooks") or ()
    ]
    return registration | {"webhooks": webhooks}


def _injected(documents: Sequence[Document]) -> str:
    """Return which other program manages a caBundle or the Secret; "" for none."""
    for one in documents:
        annotations = one["metadata"].get("annotations") or {}
        for name in (*INJECTORS, _OTHERS_SECRET):
            if name in annotations:
                return f"{one['metadata']['name']} has the annotation {name}"
    return ""


def decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the contents of a Secret by key."""
    return {name: _bytes(value) for name, value in (secret.get("data") or {}).items()}


def _encoded(files: certs.Files) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def _bytes(text: str | None) -> bytes:
    """Decode base64; return nothing for other text, which the API server would not store."""
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""


class Rotation:
    """Repeats the steps on the leader. `run` it; `wake` it when the Secret has changed."""

    def __init__(
        self, rotator: Rotator, leadership: Leadership, clock: Callable[[], datetime]
    ) -> None:
        """`clock` gives the time in UTC."""
        self._rotator: Final = rotator
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._woken: Final = asyncio.Event()
        self._trouble = ""
        self._left = ""

    @property
    def is_failing(self) -> bool:
        """Whether this replica leads, and its last step failed."""
        return bool(self._trouble) and self._leadership.is_leader

    def wake(self) -> None:
        """Take the next step now."""
        self._woken.set()

    async def run(self) -> None:
        """Take one step after the other, for ever."""
        while True:
            seconds = await self._take_step() if self._leadership.is_leader else _FOLLOWING_SECONDS
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _take_step(self) -> float:
        """Take a step and return the seconds until the next one."""
        try:
            step = await self._rotator.take_step()
        except RefusedError as error:
            advice = "; genguard install makes it" if error.status == HTTPStatus.NOT_FOUND else ""
            self._report(f"{error}{advice}")
        except (*UNREACHED, msgspec.MsgspecError, certs.CertificateError) as error:
            self._report(str(error) or type(error).__name__)
        else:
            self._trouble = ""
            return self._pause_after(step)
        return _AGAIN_SECONDS

    def _pause_after(self, step: certs.Step) -> float:
        match step:
            case certs.Wait(until):
                left = (until - self._clock()).total_seconds()
                return min(max(left, _SHORTEST_SECONDS), LONGEST_SECONDS)
            case certs.Leave(reason):
                if reason != self._left:
                    facts = {"reason": reason}
                    LOGGER.info("certificate is somebody else's", extra={"facts": facts})
                self._left = reason
                return LONGEST_SECONDS
            case certs.Spread():
                LOGGER.info("certificate trusted", extra={"facts": {}})
            case certs.Write(done, _, reason):
                facts = {"reason": reason} if reason else {}
                LOGGER.info(f"certificate {done}", extra={"facts": facts})
        return _SHORTEST_SECONDS

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            LOGGER.error("certificate not rotated", extra={"facts": {"reason": trouble}})
        self._trouble = trouble


@asynccontextmanager
async def follow_secret(
    rest: Rest,
    namespace: str,
    name: str,
    seen: Callable[[dict[str, bytes]], None],
    supervisor: Supervisor,
) -> AsyncIterator[None]:
    """Call `seen` with the contents of one Secret, now and at each change, while entered.

    Nothing is called when the Secret is deleted.
    """

    async def locate() -> str:
        return f"/api/v1/namespaces/{namespace}/secrets"

    def on_change(change: Change) -> None:
        if change.what is ChangeKind.SEEN:
            whole = {key: msgspec.json.decode(raw) for key, raw in change.object.items()}
            seen(decoded(whole))

    def on_trouble(reason: str) -> None:
        facts = {"secret": f"{namespace}/{name}", "reason": reason}
        LOGGER.warning("certificate not watched", extra={"facts": facts})

    # By this selector the right to one Secret is enough: apiserver pkg/endpoints/request/
    # requestinfo.go takes the name from it.
    collection = Collection(rest, locate, fieldSelector=f"metadata.name={name}")
    watch = {"watch of the certificate": lambda: follow(collection.changes, on_change, on_trouble)}
    async with supervisor.running(watch, on_failure=collection.forget_place):
        yield
