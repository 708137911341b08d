"""`genguard blame`: who wrote each field of an object last, and who changed it on its way."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import click

from genguard.blame.audited import AuditBlame, NotInLogError, kind_in_log
from genguard.blame.drawing import annotated, table
from genguard.blame.managed import UnreadableFieldsError
from genguard.blame.report import Blame, blame_live
from genguard.detection.finding import Finding, FoundObject
from genguard.generation.table import load_rows
from genguard.objects.served import UnknownTargetError, find, split_target
from genguard.trace.plan import Traced
from webhook.cli.files import LOGS, MAX_LINE, expand, read_audit_logs
from webhook.cli.options import NAMESPACE, RECURSIVE, Access, asks_server, filenames, formats, verb
from webhook.cli.output import object_line, print_table, tell


@verb()
@filenames("AUDIT-LOG|-")
@RECURSIVE
@formats("annotated")
@NAMESPACE
@asks_server
@MAX_LINE
@click.argument("target", metavar="KIND/NAME")
@click.argument("field", metavar="[FIELD]", default="")
def blame(
    *,
    target: str,
    field: str,
    files: tuple[str, ...],
    recursive: bool,
    output: str,
    namespace: str | None,
    access: Access,
    max_line: int,
) -> None:
    """Say who wrote each field of an object last, and which webhooks changed it."""
    try:
        kind, name = split_target(target)
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error
    if not files:
        blamed, document = asyncio.run(_of_cluster(kind, name, namespace, field, access))
        _print(blamed, document, field, output)
        return
    if any(access):
        raise click.UsageError("-f needs no cluster and no server: leave them out")
    log = AuditBlame(kind_in_log(kind, load_rows()), name, namespace or "")
    unread = read_audit_logs(log.take, expand(files, LOGS, recursive=recursive), max_line)
    try:
        object_log = log.find()
    except NotInLogError as error:
        raise click.ClickException(f"{', '.join(files)}: {error}") from error
    _print(object_log.report(field), object_log.document, field, output)
    sys.exit(1 if unread else 0)


async def _of_cluster(
    kind: str, name: str, namespace: str | None, field: str, access: Access
) -> tuple[Blame, dict[str, Any]]:
    """Raise NoSuchFieldError, UnreadableFieldsError and what asking a cluster raises."""
    # Imported here: blame -f needs none of it, and the API client loads for half a second.
    from webhook.cli.asking_server import answer_of  # noqa: PLC0415
    from webhook.cluster.discovery import absent, discover  # noqa: PLC0415
    from webhook.cluster.rest import RefusedError, UnreadableError  # noqa: PLC0415
    from webhook.cluster.tracing import read_called  # noqa: PLC0415

    async with access.connected() as rest:
        served = find(kind, await discover(rest))
        within = access.namespace(namespace) if served.namespaced else ""
        named = served.group, served.version, served.resource, within, name
        where = FoundObject(*named, "")
        try:
            document = await rest.get(f"{served.path(within)}/{name}", kind=served.kind)
        except UnreadableError as error:
            raise UnreadableFieldsError(str(error)) from error
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            query = {"q": f"{name} {where.resource}", "namespace": within}
            found, _ = await answer_of(access, rest, lambda server: server.findings(query))
            missing = await absent(rest, served, within, name)
            raise UnknownTargetError(_gone(where, missing, found or ())) from error
        where = FoundObject(*named, document["metadata"].get("uid", ""))
        known, why = await answer_of(access, rest, lambda server: server.seen(where))
        if why:
            tell(f"note: {why}")
        called = await read_called(rest, Traced(served, within, name))
        return blame_live(where, document, known, field, called), document


def _gone(where: FoundObject, missing: UnknownTargetError, found: Sequence[Finding]) -> str:
    """Say of an object that does not exist what findings know, and where to look."""
    parts = [str(missing)]
    parts += [
        f"finding {finding.id}, {finding.detector}: {finding.message}" for finding in found[:3]
    ]
    here = f" -n {where.namespace}" if where.namespace else ""
    parts.append(
        "who deleted it is in the API server's audit log: "
        f"genguard blame -f AUDIT-LOG {where.resource_name}/{where.name}{here}"
    )
    return "; ".join(parts)


def _print(found: Blame, document: Mapping[str, Any] | None, field: str, output: str) -> None:
    if output == "json":
        click.echo(object_line(found))
        return
    is_annotated = output == "annotated"
    if is_annotated and not document:
        tell("note: no event has the whole object, so nothing is annotated: see -o table")
    elif is_annotated and field and all(field.removed for field in found.fields):
        tell("note: the object has no such field any more, so nothing is annotated: see -o table")
    elif is_annotated and document:
        for line in annotated(found, document, field):
            click.echo(line)
    print_table([] if is_annotated else table(found), spare=("WHEN",))
    for note in found.notes:
        tell(f"note: {note}")
