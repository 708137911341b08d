"""`genguard install`: installs in four phases, each proven before the next begins.

server     1  namespace, rights, Secret, Deployment, Service; waits for the rollout, and until the
              pods that it replaces have ended
reach      2  the API server itself must reach it, over TLS, by the bundle it will be known by
register   3  registered for a trial namespace alone; a probe must be seen in every phase of a write
widen      4  registered for the cluster; a probe elsewhere must be seen in every phase, and
              answered in no other mode than the wanted one

Whatever ends 3 and 4 early, the registrations are put back as they were. A killed run leaves what
it has made so far, and nothing that a write of others depends on; the next run goes on.
"""

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click
from cryptography import x509

import certs
import manifests
from genguard.linting.hook import MUTATING, VALIDATING
from genguard.objects.shown import few
from webhook.cli.errors import carry_out, one_line_errors
from webhook.cli.options import CONTEXT, KUBECONFIG, F, examples, with_flags
from webhook.cli.output import Tell, ask, tell
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
from webhook.files.given import BadFileError, read_registrations
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
from webhook.manifest.documents import NAMESPACE, Document, mode_of, path_of, title_of
from webhook.manifest.rendering import (
    KEY,
    MOUNT,
    PASSWORD,
    PHASES,
    REGISTRATIONS,
    STORE_SECRET,
    Choices,
    Outside,
    SharedStore,
    as_yaml,
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
from webhook.serve.flags import ALERTMANAGER_URL, CIDRS, FOLDER, HTTPS_URL, Parsed, duration
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_SECRET_BYTES: Final = 32
_MADE: Final = (PASSWORD, KEY)
_NO_PAIR: Final = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
_OTHERS_OWN: Final = "cert-manager.io/certificate-name"
"""The annotation of a Secret that cert-manager keeps."""
_WORKLOADS: Final = ("Deployment", "StatefulSet")
_ELSEWHERE: Final = "default"
"""A namespace that the API server creates itself."""
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_INSTALLATION: Final = (
    click.option(
        "-n",
        "--namespace",
        default=NAMESPACE,
        show_default=True,
        help="Where the server runs.",
    ),
    KUBECONFIG,
    CONTEXT,
)
_CHANGE: Final = (
    click.option("--dry-run", is_flag=True, help="Only say what would be done."),
    click.option("--yes", is_flag=True, help="Do it without asking."),
)


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
        if options.choices.cert_manager:
            await _check_cert_manager(rest)
        namespace = options.choices.namespace
        if not options.registrations:  # the chart's own Job gives these
            is_inside = options.choices.outside is None
            await check_release(rest, [deployment_of(namespace)] if is_inside else [])
        await _check_alone(rest, namespace)
        if options.registrations:
            return await _prepare_registrations(rest, cluster, options)
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


async def _prepare_registrations(rest: Rest, cluster: str, options: InstallOptions) -> Prepared:
    """Find out what --registrations-file would change. The server stays as it is.

    A registration that leads nowhere yet, or only to a trial namespace, is left empty on an error.
    """
    namespace = options.choices.namespace
    deployment = await find(rest, deployment_of(namespace))
    if deployment is None:
        message = f"deployment/genguard -n {namespace} is not there: install the server first"
        raise RefusedError(HTTPStatus.NOT_FOUND, message)
    live = [await find(rest, one) for one in options.registrations]
    return Prepared(
        secrets.token_hex(4),
        cluster,
        (Step(Action.UNCHANGED, deployment),),
        (),
        tuple([await plan_step(rest, one) for one in options.registrations]),
        tuple(one | {"webhooks": []} if one and is_limited(one) else one for one in live),
        tuple(await leftovers(rest)),
    )


@asynccontextmanager
async def connected(kubeconfig: str | None, context: str | None) -> AsyncIterator[tuple[Rest, str]]:
    """Connect to the API server; gives its client and its URL. Raises NoClusterError."""
    async with connection.connected(kubeconfig or default_kubeconfig(), context) as api:
        yield Rest(api), str(api.configuration.host)


async def registrations(rest: Rest) -> list[Document]:
    """List every webhook configuration. Raises RefusedError or UNREACHED."""
    found: list[Document] = []
    for kind in (MUTATING, VALIDATING):
        found += await list_objects(rest, {"apiVersion": _ADMISSION, "kind": kind})
    return found


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
    """Plan the Secret of the Valkey that is installed: missing keys are made, others kept."""
    place = secret_of(namespace, STORE_SECRET)
    there = (await find(rest, place) or {}).get("data") or {}
    missing = [name for name in _MADE if not there.get(name)]
    if not missing:
        return Step(Action.UNCHANGED, place)
    # What is there is named as well: what is applied without it would be taken away.
    kept = {name: base64.b64decode(there[name]) for name in _MADE if there.get(name)}
    new = {name: secrets.token_urlsafe(_SECRET_BYTES).encode() for name in missing}
    step = await plan_step(rest, store_secret(namespace, kept | new))
    message = " and ".join(f"a {name}" for name in missing)
    return step._replace(note=f"{message}, not shown")


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


async def _run(prepared: Prepared, options: InstallOptions, tell: Tell) -> None:
    """Run the four phases. Raises NotInTimeError, RefusedError or UNREACHED.

    After an error the registrations are as they were before.
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
        async with phases.trial():
            await phases.reach(bundle)
            async with phases.undone():
                await phases.register()
                await phases.widen()
            await phases.settle()


class _Phases:
    """The four phases of an installation."""

    def __init__(self, rest: Rest, prepared: Prepared, seconds: float, tell: Tell) -> None:
        self._rest: Final = rest
        self._prepared: Final = prepared
        self._seconds: Final = seconds
        self._tell: Final = tell
        self._run: Final = prepared.run

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
        for deployment in self._deployments():
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
        outcome = next(one for one in self._wanted() if one["kind"].startswith("Validating"))
        probing = check(outcome, self._run)
        if bundle is not None:
            probing["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        async with self._temporary(probing):
            self._tell_refusal(await self._seen(trial_name(self._run), ("outcome",)))

    async def register(self) -> None:
        """Phase 3: register what is new for the trial namespace alone, and send a probe."""
        new = [
            one
            for one, live in zip(self._wanted(), self._prepared.before, strict=True)
            if not (live or {}).get("webhooks")
        ]
        if not new:
            self._tell("3/4 it is registered for the whole cluster already")
            return
        self._tell("3/4 it is registered for the trial namespace")
        for document in new:
            await apply(self._rest, limited(document, self._run))
        self._tell_refusal(await self._seen(trial_name(self._run), [_phase(one) for one in new]))

    async def widen(self) -> None:
        """Phase 4: register for the whole cluster, and send a probe."""
        self._tell("4/4 it is registered for the whole cluster")
        for document in self._wanted():
            await apply(self._rest, document)
        self._tell_refusal(await self._seen(_ELSEWHERE, PHASES))

    async def settle(self) -> None:
        """End of phase 4: wait until every pod that answers has the mode that was installed."""
        for deployment in self._deployments():
            mode = mode_of(deployment)
            await until_mode(self._rest, _ELSEWHERE, mode, self._seconds)
            self._tell(f"every pod that answers is {mode}")

    @asynccontextmanager
    async def trial(self) -> AsyncIterator[None]:
        """Create a namespace for this run, and delete it at the end."""
        async with self._temporary(trial_namespace(self._run)):
            yield

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[None]:
        """Put the registrations back as they were when anything fails."""
        try:
            yield
        except BaseException:
            self._tell("the registrations are put back as they were")
            await self._undo(zip(self._wanted(), self._prepared.before, strict=True))
            raise

    @asynccontextmanager
    async def _temporary(self, document: Document) -> AsyncIterator[None]:
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

    def _wanted(self) -> list[Document]:
        return [step.document for step in self._prepared.registrations]

    def _deployments(self) -> list[Document]:
        documents = [step.document for step in self._prepared.server]
        return [one for one in documents if one["kind"] == "Deployment"]

    async def _seen(self, namespace: str, phases: Sequence[str]) -> str:
        run = self._run if namespace != _ELSEWHERE else ""
        return await until_seen(self._rest, namespace, phases, self._seconds, run)

    def _tell_refusal(self, refused: str) -> None:
        if refused:
            self._tell(f"not proven, since what is sent as a proof is refused: {refused}")


def _phase(registration: dict[str, Any]) -> str:
    (webhook,) = registration["webhooks"]
    return phase_of(webhook)


def reads_installation(verb: F) -> F:
    """Add the flags of a verb that only reads an installation."""
    return with_flags(verb, _INSTALLATION)


def changes_installation(verb: F) -> F:
    """Add the flags of a verb that changes an installation, after it has asked."""
    return with_flags(verb, (*_INSTALLATION, *_CHANGE))


def _shared_store(text: str) -> SharedStore:
    """The store of --store: one that pods can share, and without a password."""
    try:
        address = parse_store(text, is_here=False)
    except BadStoreError as error:
        raise click.BadParameter(str(error)) from error
    if not isinstance(address, ValkeyAddress):
        raise click.BadParameter("replicas share a Valkey or Redis: valkey://host:port/db")
    if address.password is not None:
        raise click.BadParameter(
            "everybody who may see the Deployment would see the password: put it in "
            f"secret/{STORE_SECRET}, and write ?password-file={MOUNT}/password"
        )
    if address.key_file is None:
        raise click.BadParameter(
            "who can write to the store could choose what is put back into objects: put a key that "
            f"it never sees into secret/{STORE_SECRET}, with openssl rand -hex 32, and write "
            f"?key-file={MOUNT}/{KEY}"
        )
    for file in (address.password_file, address.key_file, address.cafile):
        if file is not None and PurePosixPath(file).parent != MOUNT:
            raise click.BadParameter(f"{file}: the pods have keys of {STORE_SECRET} in {MOUNT}/")
    return SharedStore(text, address.host, address.port)


def _bundle(file: Path) -> bytes:
    """Read the certificates that a server is known by. Raises click.UsageError."""
    content = file.read_bytes()
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise click.UsageError(f"--ca-file {file}: no certificate in PEM") from error
    return content


def _name_of(document: Document) -> object:
    """The name in a manifest that somebody wrote; None where it has none."""
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _read_registrations(file: Path) -> tuple[Document, ...]:
    """Read the file of --registrations-file. Raises click.UsageError."""
    try:
        found = read_registrations(file)
    except BadFileError as error:
        raise click.UsageError(str(error)) from error
    there = [(one["kind"], _name_of(one)) for one in found]
    if len(there) != len(REGISTRATIONS) or not all(one in there for one in REGISTRATIONS):
        names = ", ".join(name for _, name in REGISTRATIONS)
        raise click.UsageError(
            f"--registrations-file {file}: it must hold {names}, and nothing else"
        )
    return found


@click.command(
    epilog=examples(
        ("See what would be changed", "genguard install --audit-only --dry-run"),
        ("Install it so that it observes, and changes nothing", "genguard install --audit-only"),
        ("Print the manifests, for a repository", "genguard install -o yaml"),
    ),
)
@click.option("--audit-only", is_flag=True, help="Observe, warn and count, but change nothing.")
@click.option("--image", help="The server's image. [default: genguard:VERSION]")
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    type=HTTPS_URL,
    help="The server runs outside the cluster, and the API server reaches it here: only the "
    "registrations are made.",
)
@click.option("--ca-file", type=_FILE, help="With --url: the CA bundle of the server.")
@click.option(
    "--registrations",
    type=click.Choice(["follow", "fixed"]),
    help="follow: the server registers only the phases that can show or repair something, and "
    "follows what the cluster needs. fixed: all phases, for a tool that applies the registrations "
    "again and again. [default: follow; fixed with -o]",
)
@click.option(
    "--registrations-file",
    type=_FILE,
    help="The server is in place, as the Helm chart makes it: only prove that the API server "
    "reaches it, and make the registrations in this file.",
)
@click.option(
    "--cert-dir",
    type=FOLDER,
    help="Take the certificate from this folder, or make it there. [default: that of the Secret "
    "while it is valid, otherwise a new one, whose CA key is not kept]",
)
@click.option(
    "--cert-manager", is_flag=True, help="Let cert-manager issue and renew the certificate."
)
@click.option(
    "--ha",
    is_flag=True,
    help="Run three replicas that all answer and share a store: a Valkey that is installed too, or "
    "that of --store.",
)
@click.option(
    "--store",
    metavar="valkey://HOST/DB",
    type=Parsed(_shared_store),
    help="With --ha: your own store, as for serve; the files in the address are keys of "
    "secret/genguard-store. [default: a Valkey that is installed]",
)
@click.option("--store-image", metavar="IMAGE", help="With --ha: the image of that Valkey.")
@click.option(
    "--heal/--no-heal",
    default=None,
    help="Restore lost values in stored objects. This needs the right to patch every status that "
    "is watched. [default: unless --audit-only]",
)
@click.option(
    "--api-server-cidr",
    "api_servers",
    metavar="CIDR,...",
    default="",
    type=CIDRS,
    help="The addresses of the API servers, as pods see them: the NetworkPolicy lets nobody else "
    "reach the webhook port. [default: everybody]",
)
@click.option(
    "--alertmanager",
    "alertmanagers",
    multiple=True,
    metavar="URL",
    type=ALERTMANAGER_URL,
    help="Send findings there as alerts, and allow this in the NetworkPolicy; repeat for each "
    "peer.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="How many pods: one is active and the others stand by; with --ha all answer. "
    "[default: 2, or 3 with --ha]",
)
@click.option(
    "--timeout",
    "seconds",
    default="3m",
    show_default=True,
    type=duration(1),
    help="How long each phase may take.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml"]),
    help="Print the manifests, and install nothing.",
)
@changes_installation
def install(*, dry_run: bool, output: str | None, yes: bool, **flags: Any) -> None:
    """Install genguard into a cluster, step by step, and check each step.

    It starts the server, checks that the API server reaches it over TLS, registers it for a trial
    namespace and checks that it answers, and then does the same for the whole cluster. When a step
    fails or is interrupted, the registrations are put back as they were. Run the command again to
    continue.

    The exit code is 0 when it is installed, 1 when that could not be done, 2 when the command line
    is wrong.
    """
    if output and flags["registrations_file"]:
        message = "-o prints manifests, and --registrations-file has them: leave one out"
        raise click.UsageError(message)
    # Whatever applies printed manifests will apply them again, and would put the rules back.
    options = _options(default_registrations="fixed" if output else "follow", **flags)
    try:
        if output == "yaml":
            click.echo(as_yaml(manifests_of(options)), nl=False)
            return
        with one_line_errors():
            _install(options, dry_run=dry_run, yes=yes)
    except certs.CertificateError as error:
        raise click.ClickException(str(error)) from error


def _install(options: InstallOptions, *, dry_run: bool, yes: bool) -> None:

    prepared = asyncio.run(prepare(options))
    _print_steps(prepared)
    if dry_run:
        return
    if not yes:
        ask("Install it?")
    carry_out(_run(prepared, options, tell))
    tell("installed; genguard doctor looks whether all is well")


def _options(
    *,
    default_registrations: str,
    url: str | None,
    ca_file: Path | None,
    registrations: str | None,
    registrations_file: Path | None,
    cert_dir: Path | None,
    image: str | None,
    audit_only: bool,
    cert_manager: bool,
    ha: bool,
    store: SharedStore | None,
    store_image: str | None,
    heal: bool | None,
    replicas: int | None,
    api_servers: tuple[str, ...],
    alertmanagers: tuple[str, ...],
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    seconds: float,
) -> InstallOptions:

    inside = {
        "--audit-only": audit_only,
        "--heal": heal,
        "--no-heal": heal is False,
        "--image": image,
        "--cert-dir": cert_dir,
        "--cert-manager": cert_manager,
        "--ha": ha,
        "--store": store,
        "--store-image": store_image,
        "--replicas": replicas,
        "--api-server-cidr": api_servers,
        "--alertmanager": alertmanagers,
        "--registrations": registrations,
    }
    if registrations_file is not None:
        others = {"--url": url, "--ca-file": ca_file} | inside
        _refuse(others, "with --registrations-file, the server is in place")
        documents = _read_registrations(registrations_file)
        return InstallOptions(
            kubeconfig, context, Choices(namespace=namespace), None, seconds, documents
        )
    outside = None
    if url is not None:
        if ca_file is None:
            raise click.UsageError("--url needs --ca-file: the ca.crt in the server's --cert-dir")
        why = "the server is started by you, and the flags of genguard serve say how it runs"
        _refuse(inside, f"with --url, {why}")
        outside = Outside(url, _bundle(ca_file))
    elif ca_file is not None:
        raise click.UsageError("--ca-file is for a server outside the cluster: give --url")
    if store is not None and not ha:
        raise click.UsageError("--store is what replicas share: give --ha")
    if store_image is not None and (store is not None or not ha):
        raise click.UsageError("--store-image is of the Valkey that --ha installs without --store")
    if heal and audit_only:
        raise click.UsageError("--audit-only changes nothing: leave out --heal")
    if cert_dir and cert_manager:
        raise click.UsageError("give either --cert-dir or --cert-manager")
    choices = Choices(
        audit_only,
        namespace,
        image,
        cert_manager,
        outside,
        heal=heal is not False,
        follow=(registrations or default_registrations) == "follow",
        ha=ha,
        store=store,
        store_image=store_image,
        replicas=replicas,
        api_servers=api_servers,
        alertmanagers=alertmanagers,
    )
    return InstallOptions(kubeconfig, context, choices, cert_dir, seconds)


def _refuse(flags: Mapping[str, object], why: str) -> None:
    """Raise click.UsageError where one of these flags is given."""
    if given := [flag for flag, value in flags.items() if value]:
        raise click.UsageError(f"leave out {' and '.join(given)}: {why}")


def _print_steps(prepared: Prepared) -> None:
    tell(f"In the cluster {prepared.cluster}:")
    for step in prepared.steps:
        click.echo(f"  {step}")
    tell("and for a while, to try it out: a namespace and a webhook configuration genguard-test-*")
