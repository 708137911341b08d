"""Install and remove genguard: a plan is a list of steps, and each phase is proven.

server    1  namespace, rights, Secret, Deployment, Service; waits for the rollout, and until the
             pods that it replaces have ended; what is not needed any more is deleted
trial     2  a webhook of each phase for a trial namespace alone, which fails: a probe must be seen
             by all, or the API server says itself why it cannot reach the server
register  3  registered for the cluster; a probe elsewhere must be seen in every phase, and answered
             in no other mode than the wanted one

If anything ends 3 early, the registrations are put back as they were. A killed run leaves what it
has made so far, and nothing that a write of others depends on; the next run goes on.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

import certs
import manifests
from genguard.linting.hook import MUTATING, VALIDATING
from genguard.objects.shown import few
from webhook.cluster.certificates import decoded
from webhook.cluster.cluster_watch import DEFINITIONS
from webhook.cluster.installation import (
    ADMISSION,
    apply,
    find,
    leftovers,
    list_objects,
    plan_step,
    put_back,
    remove,
    until_bundle,
    until_rolled_out,
    until_seen,
)
from webhook.cluster.reconcile import until
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, unreached
from webhook.install.plan import Action, Step, foreign, home_of, release_of, removal_commands, trial
from webhook.manifest.documents import Document, mode_of, path_of, title_of
from webhook.manifest.rendering import (
    FINDINGS,
    NO_PAIR,
    PASSWORD,
    REGISTRATIONS,
    STORE_SECRET,
    Choices,
    deployment_of,
    is_registration,
    registration_of,
    render,
    secret_of,
    store_secret,
)

_SECRET_BYTES: Final = 32
_CERTIFICATES: Final[Document] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "certificates.cert-manager.io"},
}
_LABEL: Final = "app.kubernetes.io/name"
_OURS: Final = ("genguard", "genguard-valkey")
"""The values of this label on installed objects and their pods."""
_OTHERS: Final = {
    "v1": ("Pod", "Service", "Secret", "ConfigMap", "PersistentVolumeClaim"),
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet"),
    "batch/v1": ("Job", "CronJob"),
}
"""Kinds whose objects keep the namespace from being deleted, by version."""
_CLUSTERS_OWN: Final = "kube-root-ca.crt"  # the ConfigMap that every namespace is given
_ELSEWHERE: Final = "default"
"""A namespace that the API server creates itself."""


Connect = Callable[[], AbstractAsyncContextManager[Rest]]
"""Raises NoClusterError."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """The flags of install; `seconds` is how long each phase may take.

    connect        connects to the API server
    registrations  all that is made, where the server is in place already
    """

    connect: Connect
    choices: Choices
    cert_dir: Path | None = None
    seconds: float = 180.0
    registrations: tuple[Document, ...] = ()


def manifests_of(options: InstallOptions) -> list[Document]:
    """Render the manifests without a cluster, with a new certificate or that of --cert-dir.

    The key of its authority is left out. Raises CertificateError.
    """
    files, _ = _files(options, None)
    return render(options.choices, manifests.read, {name: files[name] for name in NO_PAIR})


async def prepare(options: InstallOptions) -> tuple[str, list[Step]]:
    """Find out by dry runs what an installation would change, in that order; nothing is changed.

    Returns the URL of the API server, too. Raises NoClusterError, CertificateError, RefusedError or
    UNREACHED.
    """
    async with options.connect() as rest:
        choices, namespace = options.choices, options.choices.namespace
        wanted: Sequence[Document] = options.registrations
        if choices.cert_manager:
            message = "cert-manager is not in this cluster: install it, or leave out --cert-manager"
            await _required(rest, _CERTIFICATES, message)
        if not wanted:  # the chart's own Job gives these
            outside = choices.outside is not None
            # Named PLURAL.GROUP; their schemas may be megabytes.
            found = () if outside else await rest.list_all(DEFINITIONS, only_metadata=True)
            groups = {definition["metadata"]["name"].partition(".")[2] for definition in found}
            choices = replace(
                choices, watch_groups=tuple(sorted(groups)), cluster_name=rest.cluster
            )
            await _check_release(rest, [] if outside else [deployment_of(namespace)])
        if others := foreign(await registrations(rest), namespace):
            message = f"another genguard is in this cluster: {few(list(map(title_of, others)))}. "
            message += f"A cluster has one. Take it out first: {removal_commands(others)}"
            raise RefusedError(HTTPStatus.CONFLICT, message)
        if wanted:
            message = f"deployment/genguard -n {namespace} is not there: install the server first"
            there = await _required(rest, deployment_of(namespace), message)
            steps = [Step(Action.UNCHANGED, there)]
        else:
            files, reason = _files(options, await find(rest, secret_of(namespace)))
            wanted = render(choices, manifests.read, files)
            steps = [
                await plan_step(rest, document)
                for document in wanted
                if not is_registration(document)
            ]
            steps = [
                step._replace(note=reason if step.document["kind"] == "Secret" else "")
                for step in steps
            ]
            if choices.ha and choices.store is None and choices.outside is None:
                steps.insert(1, await _password(rest, namespace))  # after the namespace
            steps += await _dropped(rest, choices, wanted)
        registered = [document for document in wanted if is_registration(document)]
        steps += [
            Step(Action.DELETE, leftover, note="left behind") for leftover in await leftovers(rest)
        ]
        steps += [await plan_step(rest, document) for document in registered]
        return rest.url, steps


async def registrations(rest: Rest) -> list[Document]:
    """List every webhook configuration. Raises RefusedError or UNREACHED."""
    heads = [{"apiVersion": ADMISSION, "kind": kind} for kind in (MUTATING, VALIDATING)]
    return [found for head in heads for found in await list_objects(rest, head)]


async def _check_release(rest: Rest, server: Sequence[Document]) -> None:
    """Refuse where Helm manages the server or a registration: it would not know of it."""
    for document in (*server, *(registration_of(*named) for named in REGISTRATIONS)):
        live = await find(rest, document)
        if live is not None and (release := release_of(live)):
            name, _, where = release.partition(" ")
            message = f"{title_of(document)} is managed by the Helm release {release}. Change it "
            message += f"with helm upgrade {name} CHART {where} --reuse-values, or remove it with "
            raise RefusedError(HTTPStatus.CONFLICT, f"{message}helm uninstall {release}")


def _everything(namespace: str) -> list[Document]:
    """Every object that install makes with any of its flags."""
    shared = Choices(namespace=namespace, ha=True)
    ways = replace(shared, ha=False), shared, replace(shared, cert_manager=True)
    rendered = [document for way in ways for document in render(way, manifests.read)]
    return list({path_of(document): document for document in rendered}.values())


async def _required(rest: Rest, document: Document, message: str) -> Document:
    """Return an object that must be there already. Raises RefusedError, also without it."""
    if found := await find(rest, document):
        return found
    raise RefusedError(HTTPStatus.NOT_FOUND, message)


async def _password(rest: Rest, namespace: str) -> Step:
    """Plan the Secret of the Valkey that is installed: a password is kept, or made."""
    secret = secret_of(namespace, STORE_SECRET)
    if decoded(await find(rest, secret) or {}).get(PASSWORD):
        return Step(Action.UNCHANGED, secret)
    step = await plan_step(rest, store_secret(namespace, secrets.token_urlsafe(_SECRET_BYTES)))
    return step._replace(note="a password, not shown")


async def _dropped(rest: Rest, choices: Choices, rendered: Sequence[Document]) -> list[Step]:
    """Plan to delete what an installation with other flags has made and this one does not need.

    Otherwise rights would remain that nobody needs any more. Secrets stay, and so does what issues
    them.
    """
    if choices.outside is not None:
        return []
    kept = {path_of(document) for document in rendered}
    return [
        Step(Action.DELETE, document)
        for document in reversed(_everything(choices.namespace))
        if path_of(document) not in kept
        and document["kind"] not in ("Secret", "Issuer", "Certificate")
        and await find(rest, document)
    ]


def _files(options: InstallOptions, secret: Document | None) -> tuple[certs.Files, str]:
    """Return the certificate to install, and why it is a new one.

    It is that of --cert-dir, else the Secret's while it is valid: the server renews that.
    """
    choices, now = options.choices, datetime.now(UTC)
    if choices.outside is not None or choices.cert_manager:
        return NO_PAIR, ""
    names = certs.installed_names("genguard", choices.namespace)
    lifetime = certs.FIRST_LEAF_LIFETIME  # nothing renews it by itself
    if options.cert_dir is not None:
        done = certs.ensure(options.cert_dir, names=names, at=now, leaf_lifetime=lifetime)
        return done.pair.files, done.reason
    files = decoded(secret or {})
    due = certs.renewal(files, (), now, names=names, lifetime=lifetime)
    if due.left:
        raise certs.CertificateError(f"secret/genguard-tls: {due.left}: give --cert-manager")
    return (files, "") if due.is_usable else (due.files, due.reason)


async def run(steps: list[Step], options: InstallOptions, tell: Callable[[str], None]) -> None:
    """Run the three phases; `tell` says a line as each begins.

    After an error the registrations are as they were before. Raises NotInTimeError, RefusedError
    or UNREACHED.
    """
    seconds = options.seconds
    gone = [step.document for step in steps if step.action is Action.DELETE]
    made = [step for step in steps if step.action is not Action.DELETE]
    wanted = [step.document for step in made if is_registration(step.document)]
    served = [step for step in made if not is_registration(step.document)]
    async with options.connect() as rest:

        async def prove(documents: Iterable[Document], where: str, number: str = "") -> None:
            for document in documents:
                await apply(rest, document)
            if refused := await until_seen(rest, where, seconds, number):
                tell(f"not proven, since what is sent as a proof is refused: {refused}")

        tell(f"1/3 the server {'is put in place' if served else 'runs outside the cluster'}")
        await _serve(rest, served, seconds)
        for document in gone:
            await remove(rest, document)
        tell("2/3 the API server must reach it in every phase, in a trial namespace")
        bundle = None
        if options.choices.cert_manager or options.registrations:
            bundle = await until_bundle(rest, secret_of(options.choices.namespace), seconds)
        number = secrets.token_hex(4)
        tried = trial(wanted, number, bundle)
        try:
            await prove(tried, tried[0]["metadata"]["name"], number)
        finally:
            left = await _undo(rest, tried[::-1], {}, tell)
        if left is not None:
            raise left
        tell("3/3 it is registered for the whole cluster")
        before = {path_of(document): await find(rest, document) for document in wanted}
        try:
            await prove(wanted, _ELSEWHERE)
        except BaseException:
            tell("the registrations are put back as they were")
            await _undo(rest, wanted, before, tell)
            raise
        for step in served:
            if step.document["kind"] == "Deployment":
                tell(f"every pod that answers is {mode_of(step.document)}")


async def _serve(rest: Rest, steps: Sequence[Step], seconds: float) -> None:
    """Install the server, and wait until its pods are ready and the earlier ones have ended."""
    changed = [step for step in steps if step.action is not Action.UNCHANGED]
    # A Service of before may come to select a label that only new pods have.
    last = [
        step
        for step in changed
        if step.document["kind"] == "Service" and step.action is Action.UPDATE
    ]
    for step in changed:
        if step not in last:
            await apply(rest, step.document)
    for step in steps:
        if step.document["kind"] in ("Deployment", "StatefulSet"):
            await until_rolled_out(rest, step.document, seconds)
    for step in last:
        await apply(rest, step.document)


async def _undo(
    rest: Rest,
    documents: Iterable[Document],
    before: Mapping[str, Document | None],
    tell: Callable[[str], None],
) -> Exception | None:
    """Put each object back as it was before, or remove it; say which cannot be, and go on.

    Returns the last error.
    """
    left = None
    for document in documents:
        try:
            await put_back(rest, document, before.get(path_of(document)))
        except (RefusedError, *UNREACHED) as error:
            left, why = error, str(error) if isinstance(error, RefusedError) else unreached(error)
            tell(f"    {title_of(document)} could not be put back: {why}")
            tell("    run install again to complete it, or genguard uninstall to remove it")
    return left


async def prepare_removal(
    connect: Connect, namespace: str, *, registrations_only: bool
) -> list[Step]:
    """List what uninstall would delete: the registrations first, the namespace last.

    Raises NoClusterError, RefusedError or UNREACHED.
    """
    async with connect() as rest:
        documents = _everything(namespace)
        live = [await find(rest, document) for document in documents if is_registration(document)]
        found = [document for document in live if document]
        if registrations_only:  # the off switch is for every genguard
            return [Step(Action.DELETE, document) for document in found + await leftovers(rest)]
        await _check_release(rest, [deployment_of(namespace)])
        if homes := {home_of(document) for document in found} - {"", namespace}:
            text = f"the registrations lead to namespace {min(homes)} and not to {namespace}: "
            raise RefusedError(HTTPStatus.CONFLICT, f"{text}give -n {min(homes)}")
        found += await leftovers(rest)
        found += await list_objects(rest, secret_of(namespace), f"{_LABEL}=genguard")
        saved = {**secret_of(namespace, FINDINGS), "kind": "ConfigMap"}
        # What was created first goes last: the namespace, with all that is in it.
        for document in (saved, *reversed(documents)):
            kept = is_registration(document) or document["kind"] == "Secret"
            if not kept and await find(rest, document):
                found.append(document)
        steps = [Step(Action.DELETE, document) for document in found]
        is_home = bool(found) and found[-1]["kind"] == "Namespace"
        if is_home and (others := await _others(rest, namespace)):
            steps[-1] = Step(Action.UNCHANGED, found[-1], note=f"it holds {few(others)}")
        return steps


async def run_removal(
    steps: list[Step], connect: Connect, seconds: float, tell: Callable[[str], None]
) -> None:
    """Delete, and wait until all is gone. Raises NotInTimeError, RefusedError or UNREACHED."""
    gone = [step.document for step in steps if step.action is Action.DELETE]
    async with connect() as rest:
        for document in gone:
            await remove(rest, document)

        async def left() -> str:
            return few([title_of(document) for document in gone if await find(rest, document)])

        if names := await left():
            tell(f"deleted; {names} must end, half a minute or more")
            await until(left, seconds, next_step="These are still being deleted")


async def _others(rest: Rest, namespace: str) -> list[str]:
    """Name the objects in the namespace that are not genguard's."""
    found = []
    for version, kinds in _OTHERS.items():
        for kind in kinds:
            like = {"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}}
            for document in await list_objects(rest, like):
                metadata = document["metadata"]
                is_ours = (metadata.get("labels") or {}).get(_LABEL) in _OURS
                if not is_ours and metadata["name"] not in (_CLUSTERS_OWN, FINDINGS):
                    found.append(f"{kind.lower()}/{metadata['name']}")
    return found
