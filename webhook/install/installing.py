"""Install genguard in four phases, each proven before the next begins.

server     1  namespace, rights, Secret, Deployment, Service; waits for the rollout, and until the
              pods that it replaces have ended
reach      2  the API server itself must reach it, over TLS, by the bundle it will be known by
register   3  registered for a trial namespace alone; a probe must be seen in every phase of a write
widen      4  registered for the cluster; a probe elsewhere must be seen in every phase, and
              answered in no other mode than the wanted one

Whatever ends 3 and 4 early, the registrations are put back as they were. A killed run leaves what
it has made so far, and nothing that a write of others depends on; the next run goes on.
"""

import base64
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

import certs
import manifests
from genguard.linting.hook import MUTATING, VALIDATING
from genguard.objects.shown import few
from webhook.cluster import connection
from webhook.cluster.connection import default_kubeconfig
from webhook.cluster.install_waits import (
    leaving,
    read_pair,
    until_bundle,
    until_mode,
    until_replaced,
    until_rolled_out,
    until_seen,
)
from webhook.cluster.installation import (
    apply,
    find,
    leftovers,
    list_objects,
    plan_step,
    put_back,
    remove,
)
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, unreached
from webhook.install.plan import Action, Step
from webhook.install.registering import (
    check,
    foreign,
    is_limited,
    limited,
    release_of,
    removal_commands,
    trial_name,
    trial_namespace,
)
from webhook.manifest.documents import Document, mode_of, path_of, title_of
from webhook.manifest.rendering import (
    PASSWORD,
    PHASES,
    REGISTRATIONS,
    STORE_SECRET,
    Choices,
    deployment_of,
    is_registration,
    keys_of,
    pair_files,
    phase_of,
    registration_of,
    render,
    secret_of,
    store_secret,
)

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_SECRET_BYTES: Final = 32
_NO_PAIR: Final = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
_OTHERS_OWN: Final = "cert-manager.io/certificate-name"
"""The annotation of a Secret that cert-manager keeps."""
_WORKLOADS: Final = ("Deployment", "StatefulSet")
_ELSEWHERE: Final = "default"
"""A namespace that the API server creates itself."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """The flags of install; `seconds` is how long each phase may take.

    registrations  all that is made, where the server is in place already
    """

    kubeconfig: str | None
    context: str | None
    choices: Choices
    cert_dir: Path | None = None
    seconds: float = 180.0
    registrations: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an installation is about to do, found by dry runs that change nothing.

    before   the registrations in the cluster, None for those that are not there
    dropped  what an earlier installation had and this one has not; deleted after the rollout
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
        """All changes, in the order in which they are made."""
        gone = [Step(Action.DELETE, one, note="left behind") for one in self.leftovers]
        return [*gone, *self.server, *self.dropped, *self.registrations]


def manifests_of(options: InstallOptions) -> list[Document]:
    """Render the manifests without a cluster, with a new certificate or that of --cert-dir.

    Raises CertificateError.
    """
    renewed = _pair(options, None)
    return render(options.choices, manifests.read, pair_files(renewed.pair))


async def prepare(options: InstallOptions) -> Prepared:
    """Find out what an installation would change; nothing is changed.

    Raises NoClusterError, CertificateError, RefusedError or UNREACHED.
    """
    async with connected(options.kubeconfig, options.context) as (rest, cluster):
        choices, namespace = options.choices, options.choices.namespace
        if choices.cert_manager:
            await _check_cert_manager(rest)
        if not options.registrations:  # the chart's own Job gives these
            await check_release(rest, [deployment_of(namespace)] if choices.outside is None else [])
        await _check_alone(rest, namespace)
        server: list[Step] = []
        dropped: list[Step] = []
        rendered: Sequence[Document] = options.registrations
        if rendered:
            server.append(Step(Action.UNCHANGED, await _installed(rest, namespace)))
        else:
            renewed = _pair(options, await find(rest, secret_of(namespace)))
            rendered = render(choices, manifests.read, pair_files(renewed.pair))
            if choices.store is not None:
                await _check_store(rest, rendered, namespace)
            for document in (one for one in rendered if not is_registration(one)):
                step = await plan_step(rest, document)
                is_secret = document["kind"] == "Secret"
                server.append(step._replace(note=renewed.reason) if is_secret else step)
            if choices.brings_store:
                server.insert(1, await _password(rest, namespace))  # after the namespace
            dropped = await _dropped(rest, choices, rendered)
        wanted = [one for one in rendered if is_registration(one)]
        live = [await find(rest, one) for one in wanted]
        # One that leads only to a trial namespace is taken away on an error; where the server is
        # not this installation's it is left empty.
        empty: Document = {"webhooks": []}
        before = [
            (one | empty if options.registrations else None) if one and is_limited(one) else one
            for one in live
        ]
        return Prepared(
            secrets.token_hex(4),
            cluster,
            tuple(server),
            tuple(dropped),
            tuple([await plan_step(rest, one) for one in wanted]),
            tuple(before),
            tuple(await leftovers(rest)),
        )


async def _installed(rest: Rest, namespace: str) -> Document:
    """Return the Deployment that is there. Raises RefusedError, also without one."""
    if deployment := await find(rest, deployment_of(namespace)):
        return deployment
    message = f"deployment/genguard -n {namespace} is not there: install the server first"
    raise RefusedError(HTTPStatus.NOT_FOUND, message)


@asynccontextmanager
async def connected(kubeconfig: str | None, context: str | None) -> AsyncIterator[tuple[Rest, str]]:
    """Connect to the API server; gives its client and its URL. Raises NoClusterError."""
    async with connection.connected(kubeconfig or default_kubeconfig(), context) as api:
        yield Rest(api), str(api.configuration.host)


async def registrations(rest: Rest) -> list[Document]:
    """List every webhook configuration. Raises RefusedError or UNREACHED."""
    heads = [{"apiVersion": _ADMISSION, "kind": kind} for kind in (MUTATING, VALIDATING)]
    return [found for head in heads for found in await list_objects(rest, head)]


async def check_release(rest: Rest, places: Iterable[Document]) -> None:
    """Refuse where Helm manages the registrations or one of `places`: it would not know of it."""
    for place in (*places, *(registration_of(*one) for one in REGISTRATIONS)):
        live = await find(rest, place)
        if live is not None and (release := release_of(live)):
            name, _, where = release.partition(" ")
            message = f"{title_of(place)} is managed by the Helm release {release}. Change it with "
            message += f"helm upgrade {name} CHART {where} --reuse-values, or remove it with "
            raise RefusedError(HTTPStatus.CONFLICT, f"{message}helm uninstall {release}")


async def _check_alone(rest: Rest, namespace: str) -> None:
    """Refuse a second genguard: both would repair and report the same writes."""
    if others := foreign(await registrations(rest), namespace):
        message = f"another genguard is in this cluster: {few([title_of(one) for one in others])}. "
        message += f"A cluster has one. Take it out first: {removal_commands(others)}"
        raise RefusedError(HTTPStatus.CONFLICT, message)


async def _check_cert_manager(rest: Rest) -> None:
    try:
        await rest.get("/apis/cert-manager.io/v1")
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        message = "cert-manager is not in this cluster: install it, or leave out --cert-manager"
        raise RefusedError(error.status, message) from error


async def _password(rest: Rest, namespace: str) -> Step:
    """Plan the Secret of the Valkey that is installed: a password is kept, or made."""
    place = secret_of(namespace, STORE_SECRET)
    if ((await find(rest, place) or {}).get("data") or {}).get(PASSWORD):
        return Step(Action.UNCHANGED, place)
    step = await plan_step(rest, store_secret(namespace, secrets.token_urlsafe(_SECRET_BYTES)))
    return step._replace(note="a password, not shown")


async def _dropped(rest: Rest, choices: Choices, rendered: list[Document]) -> list[Step]:
    """Plan to delete what an installation with other flags has made and this one does not need.

    Otherwise rights would remain that nobody needs any more.
    """
    if choices.outside is not None:
        return []
    kept = {path_of(one) for one in rendered}
    parts: dict[str, Document] = {}
    for ha in (False, True):
        most = replace(choices, audit_only=False, heal=True, ha=ha, store=None)
        parts |= {path_of(one): one for one in render(most, manifests.read, _NO_PAIR)}
    dropped = [parts[path] for path in reversed(parts) if path not in kept]
    return [Step(Action.DELETE, one) for one in dropped if await find(rest, one)]


async def _check_store(rest: Rest, rendered: list[Document], namespace: str) -> None:
    """Refuse a store whose Secret lacks keys: no pod would start without them."""
    keys = [key for one in rendered if one["kind"] == "Deployment" for key in keys_of(one)]
    if not keys:
        return
    found = await find(rest, secret_of(namespace, STORE_SECRET))
    missing = [key for key in keys if key not in ((found or {}).get("data") or {})]
    if missing:
        files = " ".join(f"--from-file={key}" for key in keys)
        message = f"secret/{STORE_SECRET} -n {namespace} has no {' and no '.join(missing)}, which "
        message += f"--store names: kubectl -n {namespace} create secret generic {STORE_SECRET} "
        again = "" if found is None else " --dry-run=client -o yaml | kubectl apply -f -"
        raise RefusedError(HTTPStatus.NOT_FOUND, f"{message}{files}{again}")


def _pair(options: InstallOptions, secret: Document | None) -> certs.Renewed:
    """The certificate to install: that of --cert-dir, else the Secret's while it is valid."""
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
    lifetime = certs.FIRST_LEAF_LIFETIME  # nothing renews it by itself
    done = certs.ensure(options.cert_dir, names=names, at=now, leaf_lifetime=lifetime)
    return certs.Renewed(done.pair, done.reason)


async def run(prepared: Prepared, options: InstallOptions, tell: Callable[[str], None]) -> None:
    """Run the four phases; `tell` says a line as each begins.

    After an error the registrations are as they were before. Raises NotInTimeError, RefusedError
    or UNREACHED.
    """
    async with connected(options.kubeconfig, options.context) as (rest, _):
        for document in prepared.leftovers:
            await remove(rest, document)
        phases = _Phases(rest, prepared, options.seconds, tell)
        await phases.serve()
        bundle = None
        if options.choices.cert_manager or options.registrations:
            secret = secret_of(options.choices.namespace)
            bundle = await until_bundle(rest, secret, options.seconds)
        async with phases.temporary(trial_namespace(prepared.run)):
            await phases.reach(bundle)
            async with phases.undone():
                await phases.register()
                await phases.widen()
            await phases.settle()


class _Phases:
    """The four phases of an installation."""

    def __init__(
        self, rest: Rest, prepared: Prepared, seconds: float, tell: Callable[[str], None]
    ) -> None:
        self._rest: Final = rest
        self._prepared: Final = prepared
        self._seconds: Final = seconds
        self._tell: Final = tell
        self._run: Final = prepared.run
        self._wanted: Final = [step.document for step in prepared.registrations]
        served = [step.document for step in prepared.server]
        self._deployments: Final = [one for one in served if one["kind"] == "Deployment"]

    async def serve(self) -> None:
        """Phase 1: install the server, and wait for its rollout."""
        steps = self._prepared.server
        if not steps:
            self._tell("1/4 the server runs outside the cluster")
            return
        self._tell("1/4 the server is put in place")
        # A Service of before may come to select a label that only new pods have.
        last = [
            step
            for step in steps
            if step.document["kind"] == "Service" and step.action is Action.UPDATE
        ]
        for step in steps:
            if step.action is not Action.UNCHANGED and step not in last:
                await apply(self._rest, step.document)
        for step in steps:
            if step.document["kind"] in _WORKLOADS:
                await until_rolled_out(self._rest, step.document, self._seconds)
        for deployment in self._deployments:
            if names := await leaving(self._rest, deployment):
                self._tell(f"    it is ready; {', '.join(names)} must end, half a minute or more")
            await until_replaced(self._rest, deployment, self._seconds)
        for step in last:
            await apply(self._rest, step.document)
        for step in self._prepared.dropped:
            await remove(self._rest, step.document)

    async def reach(self, bundle: bytes | None) -> None:
        """Phase 2: prove that the API server reaches the server over TLS."""
        self._tell("2/4 the API server must reach it")
        outcome = next(one for one in self._wanted if one["kind"].startswith("Validating"))
        probing = check(outcome, self._run)
        if bundle is not None:
            probing["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        async with self.temporary(probing):
            self._tell_refusal(await self._seen(trial_name(self._run), ("outcome",)))

    async def register(self) -> None:
        """Phase 3: register what is new for the trial namespace alone, and send a probe."""
        new = [
            one
            for one, live in zip(self._wanted, self._prepared.before, strict=True)
            if not (live or {}).get("webhooks")
        ]
        if not new:
            self._tell("3/4 it is registered for the whole cluster already")
            return
        self._tell("3/4 it is registered for the trial namespace")
        for document in new:
            await apply(self._rest, limited(document, self._run))
        phases = [phase_of(one["webhooks"][0]) for one in new]
        self._tell_refusal(await self._seen(trial_name(self._run), phases))

    async def widen(self) -> None:
        """Phase 4: register for the whole cluster, and send a probe."""
        self._tell("4/4 it is registered for the whole cluster")
        for document in self._wanted:
            await apply(self._rest, document)
        self._tell_refusal(await self._seen(_ELSEWHERE, PHASES))

    async def settle(self) -> None:
        """End of phase 4: wait until every pod that answers has the mode that was installed."""
        for deployment in self._deployments:
            mode = mode_of(deployment)
            await until_mode(self._rest, _ELSEWHERE, mode, self._seconds)
            self._tell(f"every pod that answers is {mode}")

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[None]:
        """Put the registrations back as they were when anything fails."""
        try:
            yield
        except BaseException:
            self._tell("the registrations are put back as they were")
            await self._undo(zip(self._wanted, self._prepared.before, strict=True))
            raise

    @asynccontextmanager
    async def temporary(self, document: Document) -> AsyncIterator[None]:
        """Create an object, and delete it at the end."""
        try:
            await apply(self._rest, document)
            yield
        except BaseException:
            await self._undo([(document, None)])
            raise
        await remove(self._rest, document)

    async def _undo(self, pairs: Iterable[tuple[Document, Document | None]]) -> None:
        """Put each object back as it was before, None for one that did not exist.

        Says which cannot be put back, and goes on: the error to raise is what made it necessary.
        """
        left = []
        for document, before in pairs:
            try:
                await put_back(self._rest, document, before)
            except (RefusedError, *UNREACHED) as error:
                why = str(error) if isinstance(error, RefusedError) else unreached(error)
                left.append(f"    {title_of(document)} could not be put back: {why}")
        for message in left:
            self._tell(message)
        if left:
            self._tell("    run install again to complete it, or genguard uninstall to remove it")

    async def _seen(self, namespace: str, phases: Sequence[str]) -> str:
        run = self._run if namespace != _ELSEWHERE else ""
        return await until_seen(self._rest, namespace, phases, self._seconds, run)

    def _tell_refusal(self, refused: str) -> None:
        if refused:
            self._tell(f"not proven, since what is sent as a proof is refused: {refused}")
