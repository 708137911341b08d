"""Installing, prepared: what each object would become, by dry runs that change nothing."""

import secrets
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

import certs
import manifests
from webhook.cluster import connection
from webhook.cluster.apply import find, leftovers, list_objects, plan_step
from webhook.cluster.connection import default_kubeconfig
from webhook.cluster.install_waits import read_pair
from webhook.cluster.rest import RefusedError, Rest
from webhook.doctor.result import few
from webhook.install.plan import Action, Step
from webhook.install.registering import foreign, is_limited, removal_commands
from webhook.lint.hook import MUTATING, VALIDATING
from webhook.manifest.documents import path_of, title_of
from webhook.manifest.kustomize import Document
from webhook.manifest.rendering import (
    KEY,
    PASSWORD,
    STORE_SECRET,
    Choices,
    is_registration,
    keys_of,
    pair_files,
    render,
    secret_of,
    store_secret,
)

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_SECRET_BYTES: Final = 32
_MADE: Final = (PASSWORD, KEY)
_NO_PAIR: Final = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
_OTHERS_OWN: Final = "cert-manager.io/certificate-name"
"""The annotation of a Secret that cert-manager keeps."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """What the flags say; `seconds` is how long each phase may take."""

    kubeconfig: str | None
    context: str | None
    choices: Choices
    cert_dir: Path | None = None
    seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is about to be done; `before` are the registrations as they were, None for none.

    dropped  what an earlier installation had and this one has not; it goes after the rollout
    """

    run: str
    cluster: str
    server: tuple[Step, ...]
    dropped: tuple[Step, ...]
    registrations: tuple[Step, ...]
    before: tuple[Document | None, ...]
    leftovers: tuple[Document, ...]

    @property
    def steps(self) -> list[Step]:
        """In the order in which they are done."""
        gone = [Step(Action.DELETE, one, note="left behind") for one in self.leftovers]
        return [*gone, *self.server, *self.dropped, *self.registrations]


def manifests_of(options: InstallOptions) -> list[Document]:
    """The documents alone, without a cluster: the certificate is a new one, or of the folder.

    Raises CertificateError.
    """
    renewed = _pair(options, None)
    return render(options.choices, manifests.read, pair_files(renewed.pair))


async def prepare(options: InstallOptions) -> Prepared:
    """Raise NoClusterError, CertificateError, RefusedError or UNREACHED."""
    async with connected(options.kubeconfig, options.context) as (rest, cluster):
        if options.choices.cert_manager:
            await _check_cert_manager(rest)
        namespace = options.choices.namespace
        await _check_alone(rest, namespace)
        secret = await find(rest, secret_of(namespace))
        renewed = _pair(options, secret)
        server: list[Step] = []
        registrations: list[Step] = []
        before: list[Document | None] = []
        rendered = render(options.choices, manifests.read, pair_files(renewed.pair))
        if options.choices.store is not None:
            await _check_store(rest, rendered, namespace)
        for document in rendered:
            if is_registration(document):
                live = await find(rest, document)
                before.append(None if live is None or is_limited(live) else live)
                registrations.append(await plan_step(rest, document))
            else:
                step = await plan_step(rest, document)
                is_secret = document["kind"] == "Secret"
                server.append(step._replace(note=renewed.reason) if is_secret else step)
        if options.choices.brings_store:
            server.insert(1, await _password(rest, namespace))  # after the namespace
        dropped = await _dropped(rest, options.choices, rendered)
        left = await leftovers(rest)
    return Prepared(
        secrets.token_hex(4),
        cluster,
        tuple(server),
        tuple(dropped),
        tuple(registrations),
        tuple(before),
        tuple(left),
    )


@asynccontextmanager
async def connected(kubeconfig: str | None, context: str | None) -> AsyncIterator[tuple[Rest, str]]:
    """Calls of the API server, and its URL. Raises NoClusterError."""
    async with connection.connected(kubeconfig or default_kubeconfig(), context) as api:
        yield Rest(api), str(api.configuration.host)


async def registrations(rest: Rest) -> list[Document]:
    """Every webhook configuration. Raises RefusedError or UNREACHED."""
    found: list[Document] = []
    for kind in (MUTATING, VALIDATING):
        found += await list_objects(rest, {"apiVersion": _ADMISSION, "kind": kind})
    return found


async def _check_alone(rest: Rest, namespace: str) -> None:
    """Two would repair and report the same writes; of the same name one would take the other's."""
    if others := foreign(await registrations(rest), namespace):
        told = f"another genguard is in this cluster: {few([title_of(one) for one in others])}. "
        told += f"A cluster has one. Take it out first: {removal_commands(others)}"
        raise RefusedError(HTTPStatus.CONFLICT, told)


async def _check_cert_manager(rest: Rest) -> None:
    try:
        await rest.get("/apis/cert-manager.io/v1")
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        told = "cert-manager is not in this cluster: install it, or leave out --cert-manager"
        raise RefusedError(error.status, told) from error


async def _password(rest: Rest, namespace: str) -> Step:
    """The Secret of an own Valkey: what is missing is made once, and kept from then on."""
    place = secret_of(namespace, STORE_SECRET)
    there = (await find(rest, place) or {}).get("data") or {}
    missing = [name for name in _MADE if not there.get(name)]
    if not missing:
        return Step(Action.UNCHANGED, place)
    # What is there is named as well: what is applied without it would be taken away.
    kept = {name: b64decode(there[name]) for name in _MADE if there.get(name)}
    new = {name: secrets.token_urlsafe(_SECRET_BYTES).encode() for name in missing}
    step = await plan_step(rest, store_secret(namespace, kept | new))
    told = " and ".join(f"a {name}" for name in missing)
    return step._replace(note=f"{told}, not shown")


async def _dropped(rest: Rest, choices: Choices, rendered: list[Document]) -> list[Step]:
    """What another choice of store and of heal has installed, and this one does not name.

    A right that nobody needs any more does not stay.
    """
    if choices.outside is not None:
        return []
    most = replace(choices, audit_only=False, heal=True, ha=True, store=None)
    kept = {path_of(one) for one in rendered}
    parts = [one for one in render(most, manifests.read, _NO_PAIR) if path_of(one) not in kept]
    return [Step(Action.DELETE, one) for one in reversed(parts) if await find(rest, one)]


async def _check_store(rest: Rest, rendered: list[Document], namespace: str) -> None:
    """Without the Secret that is mounted no pod would start."""
    keys = [key for one in rendered if one["kind"] == "Deployment" for key in keys_of(one)]
    if not keys:
        return
    found = await find(rest, secret_of(namespace, STORE_SECRET))
    missing = [key for key in keys if key not in ((found or {}).get("data") or {})]
    if missing:
        files = " ".join(f"--from-file={key}" for key in keys)
        told = f"secret/{STORE_SECRET} -n {namespace} has no {' and no '.join(missing)}, which "
        told += f"--store names: kubectl -n {namespace} create secret generic {STORE_SECRET} "
        again = "" if found is None else " --dry-run=client -o yaml | kubectl apply -f -"
        raise RefusedError(HTTPStatus.NOT_FOUND, f"{told}{files}{again}")


def _pair(options: InstallOptions, secret: Document | None) -> certs.Renewed:
    """What is in the cluster as long as it is good; a folder's pair comes before it."""
    choices = options.choices
    if choices.outside is not None or choices.cert_manager:
        return certs.Renewed(certs.PairSnapshot(b"", b"", None), "")
    now = datetime.now(UTC)
    names = certs.installed_names("genguard", choices.namespace)
    if _OTHERS_OWN in ((secret or {}).get("metadata", {}).get("annotations") or {}):
        raise certs.CertificateError(
            "the Secret is cert-manager's, which would change it again: give --cert-manager"
        )
    if options.cert_dir is None:
        return certs.renew(read_pair(secret), names=names, at=now)
    lifetime = certs.AUTHORITY_LIFETIME  # nothing renews it by itself
    done = certs.ensure(options.cert_dir, names=names, at=now, leaf_lifetime=lifetime)
    return certs.Renewed(done.pair, done.reason)
