"""`genguard converge`: whether what a manifest asks for will stay in a cluster."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from genguard.audit.event import Event, ObjectReference
from genguard.blame.audited import AuditBlame, NotInLogError
from genguard.blame.managed import UnreadableFieldsError
from genguard.blame.report import BlamedField, BlamedObject, blame_live
from genguard.converge.contest import Contested, Verdict
from genguard.converge.ignoring import (
    Ignore,
    argocd_ignores,
    flux_ignores,
    without_ignored,
)
from genguard.converge.owners import (
    asked_twice,
    joined,
    owned_by_others,
    resized_by,
    scaled_by,
)
from genguard.converge.report import as_json, as_rows, as_sarif, name_of
from genguard.converge.rounds import Asked, RefusedApplyError
from genguard.converge.rounds import converge as play
from genguard.objects.served import Served
from genguard.objects.shown import json_line
from webhook import __version__
from webhook.cel.evaluator import Evaluator
from webhook.cli import output as terminal
from webhook.cli.asking_server import Server, ServerChoice, seen_by, server_beside
from webhook.cli.audit_logs import read_audit_logs
from webhook.cli.errors import one_line_errors
from webhook.cli.files import (
    LOGS,
    MANIFESTS,
    FileObjects,
    expand_or_fail,
    texts_of,
)
from webhook.cli.options import (
    CONTEXT,
    FILENAME_HELP,
    KUBECONFIG,
    MAX_LINE,
    NAMESPACE,
    RECURSIVE,
    check_server,
    examples,
    may_ask_server,
)
from webhook.cli.output import tell
from webhook.cluster.connection import connected, default_kubeconfig, default_namespace
from webhook.cluster.converging import Admission, DryRuns, read_admission, read_statuses
from webhook.cluster.discovery import discover
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, unreached
from webhook.files.given import BadFileError, read_of_kind

T = TypeVar("T")
_AUTOSCALERS: Final = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
_VERTICAL: Final = ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler")
_MANAGER: Final = "genguard-converge"
_AT_ONCE: Final = 8
"""Objects that are looked at side by side."""
_FILE: Final = click.Path(path_type=Path)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Options:
    """The flags of one run."""

    kubeconfig: str
    context: str | None
    namespace: str
    manager: str | None
    impersonated: Mapping[str, str]
    ignores: Sequence[Ignore]
    server: ServerChoice | None
    logs: Sequence[str]
    max_line: int


@dataclass(frozen=True, slots=True)
class _Refused:
    """A manifest that the API server refuses, by itself."""

    which: Mapping[str, str]
    reason: str


@click.command(
    epilog=examples(
        ("Before a merge, in CI", "genguard converge -f manifests/ -n shop"),
        (
            "With the differences that Argo CD ignores",
            "genguard converge -f web.yaml --argocd-app application.yaml",
        ),
        ("What another tool renders", "genguard converge -f - -n shop"),
        (
            "With who wrote its fields lately, by a running genguard and an audit log",
            "genguard converge -f web.yaml --server genguard-system --audit audit.log",
        ),
    ),
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help=f"Manifests: {FILENAME_HELP}.",
)
@RECURSIVE
@NAMESPACE
@KUBECONFIG
@CONTEXT
@click.option(
    "--as",
    "user",
    metavar="USER",
    help="Apply as this user, whom some webhooks treat in a way of their own.",
)
@click.option("--as-group", "group", metavar="GROUP", help="With --as: as a member of this group.")
@click.option(
    "--field-manager",
    "manager",
    metavar="NAME",
    help="Apply as this manager: what another one applies is a fight then. [default: any tool that "
    "applies manifests may be the one]",
)
@may_ask_server
@click.option(
    "--audit",
    "logs",
    multiple=True,
    metavar="AUDIT-LOG",
    help="Audit logs of the API servers, plain or .gz, of level Request or more: who changes a "
    f"field back each time. A log is {FILENAME_HELP}.",
)
@click.option(
    "--argocd-app",
    "argocd",
    type=_FILE,
    help="An Argo CD Application: what its ignoreDifferences name is no fight.",
)
@click.option(
    "--flux",
    type=_FILE,
    help="A Flux HelmRelease: what its driftDetection ignores is no fight.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "table", "sarif"]),
    default="table",
    show_default=True,
    help="A table for people, JSON for programs (an object a line), or SARIF for code scanning.",
)
@MAX_LINE
def converge(
    files: tuple[str, ...],
    *,
    recursive: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    user: str | None,
    group: str | None,
    manager: str | None,
    server: str | None,
    token: str,
    logs: tuple[str, ...],
    argocd: Path | None,
    flux: Path | None,
    output: str,
    max_line: int,
) -> None:
    """Say before it is applied whether a manifest will come to rest in a cluster.

    Each object is applied as a dry run, with every webhook and policy of the cluster. Then its
    webhooks are called one by one, as if the manifest was applied again and again, and as if a
    controller reported its status. Nothing is stored, and no webhook is called that does not
    declare dry runs to have no side effects.

    A fight is a field that two write for ever: a webhook that overwrites what the manifest asks
    for, that never leaves an object alone, or that takes away what a controller reports; an owner
    who wants another value, as a HorizontalPodAutoscaler of the replicas; somebody who has changed
    a field back before, more than once. Owners come from managedFields; who changes a field in turn
    is known from --server and --audit.

    The exit code is 0 when everything comes to rest, 1 when something would fight, is refused or
    could not be looked at, when there is no object, or a line of an audit log could not be read, 2
    when the command line is wrong.
    """
    check_server(server, token)
    if group and not user:
        raise click.UsageError("--as-group needs --as")
    given = {"Impersonate-User": user, "Impersonate-Group": group}
    impersonated = {header: value for header, value in given.items() if value}
    source = FileObjects(files, max_line, recursive=recursive)
    documents = list(source)
    ignores = _ignores(argocd, flux)
    if not documents:
        told = "" if source.unread else f": no object in {', '.join(files)}"
        raise click.ClickException(f"nothing to look at{told}")
    with one_line_errors(), Evaluator() as evaluator:
        kubeconfig = kubeconfig or default_kubeconfig()
        options = _Options(
            kubeconfig,
            context,
            namespace or default_namespace(kubeconfig, context),
            manager,
            impersonated,
            ignores,
            ServerChoice(server, token) if server else None,
            expand_or_fail(logs, LOGS, recursive=recursive),
            max_line,
        )
        found, unread = asyncio.run(_look(documents, options, evaluator))
    verdicts = [one for one in found if isinstance(one, Verdict)]
    refused = [one for one in found if isinstance(one, _Refused)]
    if output == "sarif":
        texts = texts_of(expand_or_fail(files, MANIFESTS, recursive=recursive))
        click.echo(json_line(as_sarif(verdicts, texts, __version__)))
    elif output == "json":
        for one in verdicts:
            click.echo(json_line(as_json(one)))
    else:
        rows = [row for one in verdicts for row in as_rows(one)]
        for line in terminal.lines(rows) if rows else ():
            click.echo(line)
    for each in refused:
        tell(f"{name_of(each.which)}: {each.reason}")
    is_well = all(one.is_known and not one.fights for one in verdicts)
    is_read = not (source.unread or unread)
    sys.exit(0 if verdicts and is_well and is_read and not refused else 1)


def _ignores(argocd: Path | None, flux: Path | None) -> list[Ignore]:
    """Read the rules of GitOps tools. Raises click.UsageError."""
    readers = (
        ("--argocd-app", argocd, "Application", argocd_ignores),
        ("--flux", flux, "HelmRelease", flux_ignores),
    )
    found: list[Ignore] = []
    for flag, path, kind, read in readers:
        try:
            found += read(read_of_kind(path, flag, kind)) if path else ()
        except BadFileError as error:
            raise click.UsageError(str(error)) from error
        except (ValueError, AttributeError, TypeError) as error:
            raise click.UsageError(f"{flag} {path}: its ignore rules are none: {error}") from error
    return found


async def _look(
    documents: Sequence[Document], options: _Options, evaluator: Evaluator
) -> tuple[list[Verdict | _Refused], int]:
    """Look at each object; return also how many lines of audit logs could not be read.

    Raises NoClusterError, NoServerError, RefusedError or UNREACHED.
    """
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(connected(options.kubeconfig, options.context))
        rest = applying = Rest(api)
        if options.impersonated:
            acting = await stack.enter_async_context(connected(options.kubeconfig, options.context))
            acting.default_headers |= options.impersonated
            applying = Rest(acting)
        served, admission = await discover(rest), await read_admission(rest, applying)
        server: Server | None = None
        if options.server:
            server = await stack.enter_async_context(server_beside(options.server, rest))
        run = _Run(rest, applying, served, admission, server, options=options, evaluator=evaluator)
        prepared = [run.prepare(one) for one in documents]
        unread = run.read_logs(prepared)
        places = asyncio.Semaphore(_AT_ONCE)  # most of the time is spent waiting

        async def look(one: _Prepared) -> Verdict | _Refused:
            async with places:
                return await run.look(one, prepared)

        return await asyncio.gather(*map(look, prepared)), unread


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A manifest with its kind as the cluster serves it, None where it does not."""

    served: Served | None
    manifest: Document
    which: Mapping[str, str]


class _Run:
    """One run: what is read once for all objects is kept."""

    def __init__(
        self,
        rest: Rest,
        acting: Rest,
        served: Iterable[Served],
        admission: Admission,
        server: Server | None,
        *,
        options: _Options,
        evaluator: Evaluator,
    ) -> None:
        self._rest: Final = rest
        self._acting: Final = acting
        self._served: Final = {
            (f"{one.group}/{one.version}".lstrip("/"), one.kind): one for one in served
        }
        self._admission: Final = admission
        self._server: Final = server
        self._logged: Final[dict[tuple[str, ...], AuditBlame]] = {}
        """What audit logs say of each object, by the values of `which`; {} without logs."""
        self._options: Final = options
        self._evaluator: Final = evaluator
        self._reads: Final[dict[tuple[object, ...], Any]] = {}
        self._reading: Final = asyncio.Lock()

    def prepare(self, document: Document) -> _Prepared:
        """Find the kind of a manifest, and give it a namespace where it needs one."""
        given = document.get("metadata")
        metadata = dict(given) if isinstance(given, dict) else {}
        version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        served = self._served.get((version, kind))
        if served is not None and not served.namespaced:
            metadata.pop("namespace", None)  # kubectl passes over it, too
        elif not metadata.get("namespace"):
            metadata["namespace"] = self._options.namespace
        name = metadata.get("name")
        which = {
            "kind": kind,
            "group": served.group if served else version.rpartition("/")[0],
            "resource": served.resource if served else kind.lower(),
            "namespace": str(metadata.get("namespace", "")),
            "name": name if isinstance(name, str) else "",
        }
        manifest = {**document, "metadata": metadata}
        if served is not None and served.has_status:
            manifest.pop("status", None)  # which an apply does not write
        return _Prepared(served, manifest, which)

    def read_logs(self, prepared: Iterable[_Prepared]) -> int:
        """Read the audit logs once, for all manifests; return how many lines are unreadable.

        Raises click.ClickException.
        """
        if not self._options.logs:
            return 0
        by_kind: dict[tuple[str, str], list[tuple[str, AuditBlame]]] = {}
        for one in prepared:
            if one.served is not None and _which(one) not in self._logged:
                name, kind = one.which["name"], (one.served.group, one.served.resource)
                log = AuditBlame(lambda _: True, name, one.which["namespace"])
                self._logged[_which(one)] = log
                by_kind.setdefault(kind, []).append((name, log))

        def take(event: Event) -> None:
            where = event.object_ref or ObjectReference()
            for name, log in by_kind.get((where.api_group, where.resource), ()):
                if where.name in ("", name):
                    log.take(event)

        return read_audit_logs(take, self._options.logs, self._options.max_line)

    async def look(self, one: _Prepared, every: Sequence[_Prepared]) -> Verdict | _Refused:
        """Look at one of the manifests. Raises RefusedError for a missing right."""
        try:
            return await self._look(one, every)
        except RefusedApplyError as error:
            reason = f"the API server refuses it: {error}"
        except RefusedError as error:
            if error.missing_right:
                raise
            reason = f"it could not be looked at: {error}"
        except UNREACHED as error:
            reason = f"it could not be looked at: {unreached(error)}"
        if one.which["kind"] == "Secret":
            reason = "it cannot be applied: `kubectl apply --dry-run=server` says why"
        return _Refused(one.which, reason)

    async def _look(self, one: _Prepared, every: Sequence[_Prepared]) -> Verdict | _Refused:
        if one.served is None:
            kind = f"{one.manifest.get('apiVersion', '')} {one.manifest.get('kind', '')}".strip()
            return _Refused(one.which, f"the cluster serves no {kind or 'object without a kind'}")
        if not one.which["name"]:
            return _Refused(one.which, "it has no metadata.name, without which nothing is applied")
        labels = await self._once(self._labels, one.which["namespace"])
        cluster = DryRuns(
            self._rest,
            self._acting,
            one.served,
            self._admission,
            conditions=self._evaluator,
            namespace_labels=labels,
            manager=self._options.manager or _MANAGER,
        )
        stored = await cluster.find(one.manifest)
        others = [each.manifest for each in every if each is not one and each.which == one.which]
        contested = list(asked_twice(one.manifest, others))
        contested += await self._owned(one.served, one, stored)
        generation = int((stored or {}).get("metadata", {}).get("generation") or 1)
        statuses = await self._once(read_statuses, self._rest, one.served, generation)
        asked = Asked(one.served, one.manifest, stored, statuses, contested)
        verdict = await play(asked, cluster)
        left_out = without_ignored(verdict.contested, one.which, self._options.ignores)
        return verdict._replace(contested=left_out)

    async def _once(self, read: Callable[..., Awaitable[T]], *words: object) -> T:
        """Read what several objects need once, also for those that ask while it is read."""
        key = read, *words
        async with self._reading:
            if key not in self._reads:
                self._reads[key] = await read(*words)
        found: T = self._reads[key]
        return found

    async def _owned(
        self, served: Served, one: _Prepared, stored: Document | None
    ) -> list[Contested]:
        manifest, namespace = one.manifest, one.which["namespace"]
        found: list[Contested] = []
        try:
            written = await self._written(served, one, stored)
            user = self._options.impersonated.get("Impersonate-User", "")
            found += owned_by_others(manifest, stored or {}, written, self._options.manager, user)
        except UnreadableFieldsError as error:
            tell(f"the owners of {served}/{one.which['name']} are not known: {error}")
        spec = manifest.get("spec")
        if isinstance(spec, dict) and spec.get("replicas") is not None:
            path = _AUTOSCALERS.format(quote(namespace, safe=""))
            found += scaled_by(manifest, served, await self._once(self._list, path))
        vertical = self._served.get(_VERTICAL)
        if vertical is not None and isinstance(spec, dict):
            path = vertical.path(namespace)
            found += resized_by(manifest, served, await self._once(self._list, path))
        return found

    async def _written(
        self, served: Served, one: _Prepared, stored: Document | None
    ) -> Sequence[BlamedField]:
        """Return who wrote the fields of an object. Raises UnreadableFieldsError, NoServerError."""
        if stored is None:
            return ()
        uid = stored["metadata"].get("uid", "")
        where = BlamedObject.of(served, one.which["namespace"], one.which["name"], uid)
        seen = await seen_by(self._server, where, stored) if self._server else None
        if seen is not None and not seen.writes:
            tell(f"--server remembers no write of {where}")
        live = blame_live(where, stored, seen).fields
        log = self._logged.get(_which(one))
        if log is None:
            return live
        try:
            story = log.find()
        except NotInLogError:
            tell(f"--audit has no write of {where}")
            return live
        if story.unseen:
            tell(f"--audit does not show the fields of {story.unseen} writes of {where}")
        report = story.report("")
        if not report.exists or report.object.uid not in ("", uid):
            tell(f"--audit is about an earlier {where}")
            return live
        return tuple(joined(live, report.fields))

    async def _labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; {} for one that is not there yet, or for none."""
        if not namespace:
            return {}
        try:
            found = await self._rest.get(f"/api/v1/namespaces/{quote(namespace, safe='')}")
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {}
        return found["metadata"].get("labels") or {}

    async def _list(self, path: str) -> Sequence[Document]:
        """Return the autoscalers of a namespace; () where they may not be read."""
        try:
            return await self._rest.list_all(path)
        except RefusedError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                raise
            tell(f"{path.rpartition('/')[2]} are not known: {error}")
            return ()


def _which(one: _Prepared) -> tuple[str, ...]:
    return tuple(one.which.values())
