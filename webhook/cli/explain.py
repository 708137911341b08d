"""`genguard explain`: when a kind's generation moves, how its status is read; a finding."""

import asyncio
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from genguard.explain.explanation import Catalogue, Explanation
from genguard.explain.page import FindingLine, finding_page, page
from genguard.generation.table import DEFAULT_SERVER_VERSION, load_table
from genguard.objects.served import UnknownTargetError
from genguard.objects.shown import printable
from genguard.status.health_rules import HealthRules
from webhook.cli import output as terminal
from webhook.cli.errors import why_it_ended
from webhook.cli.options import OUTPUT, Access, asks_server, finding_id, is_finding, verb
from webhook.cli.rules import RULES, rule_evaluator
from webhook.files.given import read_definitions
from webhook.server.flags import FILE

_WIDEST = 100


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete a RESOURCE in a shell by built-in names; no cluster is asked."""
    known = Catalogue(load_table(), ()).names
    return [name for name in known if name.startswith(incomplete)]


@verb()
@click.option(
    "--server-version",
    metavar="VERSION",
    help=f"As a Kubernetes of this version has it. [default: the cluster's, where one is asked, "
    f"else {DEFAULT_SERVER_VERSION}]",
)
@click.option("--crds", type=FILE)
@RULES
@asks_server
@OUTPUT
@click.argument("resource", metavar="RESOURCE|ID", shell_complete=_names)
def explain(
    *,
    resource: str,
    server_version: str | None,
    crds: Path | None,
    rules: Path | None,
    access: Access,
    output: str,
) -> None:
    """Say when a kind's generation grows, who may write its status, and how it is evaluated."""
    if is_finding(resource):
        if server_version or crds or rules:
            raise click.UsageError("a finding is asked for at a server: leave out what is of kinds")
        finding = asyncio.run(access.finding(finding_id(resource)))
        for line in (
            [terminal.object_line(finding)]
            if output == "json"
            else map(_shown, finding_page(finding))
        ):
            click.echo(line)
        return
    if access.server or access.token:
        raise click.UsageError("--server is for finding/ID")
    with rule_evaluator(rules) as evaluator:
        health = evaluator.rules
    given = list(read_definitions(crds)) if crds else []
    if access.kubeconfig or access.context:
        found = _of_cluster(resource, server_version, health, access, "")
    else:
        table = load_table(server_version or DEFAULT_SERVER_VERSION)
        try:
            found = Catalogue(table, given, health).explain(resource)
        except UnknownTargetError as error:
            if crds:
                raise
            unknown = f"{error}; for a custom resource give --crds or --kubeconfig"
            found = _of_cluster(resource, server_version, health, access, unknown)
    found = replace(found, in_cluster=_in_cluster(access, found.resource))
    if output == "json":
        click.echo(terminal.object_line(found))
    else:
        _print(found)


def _shown(line: FindingLine) -> str:
    if line.is_heading:
        return terminal.heading(printable(line.text))
    text = printable(line.text)
    # A command or stanza is copied as it is: it is never wrapped.
    return f"{line.lead}{text}" if line.is_code else _wrapped(line.lead, text)


def _of_cluster(
    resource: str, version: str | None, rules: HealthRules, access: Access, unknown: str
) -> Explanation:
    """Explain a kind as a cluster has it; `unknown` is said where none was named, and none is."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.cluster_watch import definitions, server_version  # noqa: PLC0415
    from webhook.cluster.connection import NoClusterError  # noqa: PLC0415

    async def ask() -> tuple[str, list[dict[str, Any]]]:
        async with access.connected() as rest:
            return await server_version(rest), await definitions(rest)

    try:
        _ = access.file
    except NoClusterError as error:
        if not unknown:
            raise
        raise click.UsageError(unknown) from error
    found, defined = asyncio.run(ask())
    return Catalogue(load_table(version or found), defined, rules).explain(resource)


def _in_cluster(access: Access, name: str) -> str:
    """Say whether the genguard of a cluster sees the writes of a kind; "" without a cluster."""
    from webhook.cli.asking_server import answer_of  # noqa: PLC0415
    from webhook.cluster.connection import NoClusterError  # noqa: PLC0415
    from webhook.cluster.coverage import Coverage, is_called  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415
    from webhook.install.installing import registrations  # noqa: PLC0415

    async def ask() -> str:
        coverage, (resource, _, group) = Coverage(), name.partition(".")
        async with access.connected() as rest:
            page, why = await answer_of(access, rest, lambda server: server.page({"kind": name}))
            if page is None or page.note:
                said = why if page is None else page.note
                return said.replace("not watched", "neither registered nor watched")
            coverage.learn_hooks(await registrations(rest))
        if any(is_called(hook, group, resource) for hook in coverage.hooks):
            return "registered: its writes are sent to genguard"
        return "watched: changes are seen, and not who asks for them"

    try:
        return asyncio.run(ask())
    except NoClusterError:
        return ""
    except (RefusedError, *UNREACHED) as error:
        return f"not known: {why_it_ended(error)[1]}"


def _print(found: Explanation) -> None:
    sections = page(found)
    column = max(len(word) for section in sections for word, _ in section.lines)
    for section in sections:
        click.echo(terminal.heading(printable(section.heading)))
        for word, text in section.lines:
            click.echo(_wrapped(f"  {word:<{column}}  ", printable(text)))


def _wrapped(lead: str, text: str) -> str:
    return terminal.wrapped(lead, text, min(terminal.width(), _WIDEST))
