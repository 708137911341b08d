"""`genguard converge`: whether what a manifest asks for will stay in a cluster."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import click

from genguard.converge.chain import Document
from genguard.converge.contest import ConvergeResult
from genguard.converge.ignoring import Ignore, argocd_ignores
from genguard.converge.prepared import Applier, Logs, Prepared, Refused
from genguard.converge.report import as_json, as_rows, as_sarif, name_of
from genguard.objects.shown import json_line
from webhook import __version__
from webhook.cel.evaluator import Evaluator
from webhook.cli.files import (
    LOGS,
    MANIFESTS,
    MAX_LINE,
    FileObjects,
    expand,
    read_audit_logs,
    texts_of,
)
from webhook.cli.options import NAMESPACE, RECURSIVE, SARIF, Access, filenames, may_ask_server, verb
from webhook.cli.output import object_line, print_table, tell
from webhook.cluster.converging import Convergence, read_admission
from webhook.cluster.discovery import discover
from webhook.files.given import read_of_kind

_FILE: Final = click.Path(path_type=Path)


@verb()
@filenames("FILE", required=True)
@RECURSIVE
@NAMESPACE
@click.option("--as", "user", metavar="USER")
@click.option("--as-group", "group", metavar="GROUP")
@click.option("--field-manager", "manager", metavar="NAME")
@may_ask_server
@click.option("--audit", "logs", multiple=True, metavar="AUDIT-LOG")
@click.option("--argocd-app", "argocd", type=_FILE)
@SARIF
@MAX_LINE
def converge(
    files: tuple[str, ...],
    *,
    recursive: bool,
    group: str | None,
    argocd: Path | None,
    output: str,
    **flags: Any,
) -> None:
    """Say before it is applied whether a manifest will come to rest in a cluster."""
    if group and not flags["user"]:
        raise click.UsageError("--as-group needs --as")
    source = FileObjects(files, flags["max_line"], recursive=recursive)
    documents = list(source)
    ignores = _ignores(argocd)
    if not documents:
        told = "" if source.unread else f": no object in {', '.join(files)}"
        raise click.ClickException(f"nothing to look at{told}")
    flags["logs"] = tuple(expand(flags["logs"], LOGS, recursive=recursive))
    with Evaluator() as evaluator:
        found, unread = asyncio.run(_look(documents, ignores, evaluator, group=group, **flags))
    results = [result for result in found if isinstance(result, ConvergeResult)]
    refused = [result for result in found if isinstance(result, Refused)]
    if output == "sarif":
        texts = texts_of(expand(files, MANIFESTS, recursive=recursive))
        click.echo(json_line(as_sarif(results, texts, __version__)))
    elif output == "json":
        for result in results:
            click.echo(object_line(as_json(result)))
    else:
        print_table([row for result in results for row in as_rows(result)])
    for each in refused:
        tell(f"{name_of(each.which)}: {each.reason}")
    is_well = all(result.is_known and not result.fights for result in results)
    is_read = not (source.unread or unread)
    sys.exit(0 if results and is_well and is_read and not refused else 1)


def _ignores(argocd: Path | None) -> list[Ignore]:
    """Read the rules of Argo CD. Raises click.UsageError."""
    try:
        return argocd_ignores(read_of_kind(argocd, "--argocd-app", "Application") if argocd else ())
    except (ValueError, AttributeError, TypeError) as error:
        raise click.UsageError(
            f"--argocd-app {argocd}: its ignore rules are none: {error}"
        ) from error


async def _look(
    documents: Sequence[Document],
    ignores: Sequence[Ignore],
    evaluator: Evaluator,
    *,
    namespace: str | None,
    access: Access,
    user: str | None,
    group: str | None,
    manager: str | None,
    logs: Sequence[str],
    max_line: int,
) -> tuple[list[ConvergeResult | Refused], int]:
    """Look at each object; return also how many lines of audit logs could not be read.

    Raises NoClusterError, NoServerError, RefusedError or UNREACHED.
    """
    async with AsyncExitStack() as stack:
        rest = applying = await stack.enter_async_context(access.connected())
        if user:
            given = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
            applying = await stack.enter_async_context(access.connected(**given))
        served = await discover(rest)
        kinds = {(f"{kind.group}/{kind.version}".lstrip("/"), kind.kind): kind for kind in served}
        seen = None
        if access.server:
            seen = (await stack.enter_async_context(access.reached(rest))).seen
        within = access.namespace(namespace)
        prepared = [Prepared.of(document, kinds, within) for document in documents]
        by_log = Logs(prepared) if logs else None
        unread = read_audit_logs(by_log.take, logs, max_line) if by_log else 0
        run = Convergence(
            await read_admission(rest, applying, evaluator),
            Applier(manager, user or ""),
            ignores,
            seen=seen,
            logs=by_log,
            tell=tell,
        )
        return await run.look_at_all(prepared), unread
