"""`genguard lint`: webhooks and CustomResourceDefinitions checked for what breaks clusters."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any, Final

import click

from genguard.linting.check import Level, LintFinding
from genguard.linting.definition import is_definition
from genguard.linting.hook import MUTATING, VALIDATING
from genguard.linting.lint import lint as look
from genguard.linting.lint import to_sarif
from genguard.objects.shown import json_line, printable
from webhook import __version__
from webhook.cli.files import MANIFESTS, MAX_LINE, FileObjects, expand, texts_of
from webhook.cli.options import RECURSIVE, Access, asks_cluster, verb
from webhook.cli.output import CHECKED_SARIF, print_checked, tell, with_margin

_CONFIGURATIONS: Final = (MUTATING, VALIDATING)


@verb()
@CHECKED_SARIF
@asks_cluster
@click.option(
    "--fail-on",
    type=click.Choice([level.value for level in Level]),
    default=Level.ERROR.value,
    show_default=True,
)
@RECURSIVE
@MAX_LINE
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER...|-]")
def lint(
    files: tuple[str, ...],
    *,
    output: str,
    access: Access,
    fail_on: str,
    recursive: bool,
    max_line: int,
) -> None:
    """Check webhook configurations and CustomResourceDefinitions for what breaks clusters."""
    of_cluster = not files
    if files and any(access):
        raise click.UsageError("give either FILEs or --kubeconfig or --context")
    source = FileObjects(files, max_line, recursive=recursive)
    documents: list[Any] = list(source)
    if of_cluster:
        documents = asyncio.run(_of_cluster(access))
    found = look(documents, at=datetime.now(UTC), live=of_cluster)
    if output == "sarif":
        texts = texts_of(expand(files, MANIFESTS, recursive=recursive))
        click.echo(json_line(to_sarif(found, texts, __version__)))
    else:
        print_checked(found, _row, output, Level, lambda finding: finding.severity)
    if not any(
        is_definition(document)
        or (isinstance(document, dict) and document.get("kind") in _CONFIGURATIONS)
        for document in documents
    ):
        where = "the cluster" if of_cluster else ", ".join(files)
        tell(f"No webhook configuration or CustomResourceDefinition found in {where}.")
    is_bad = any(finding.severity.rank <= Level(fail_on).rank for finding in found)
    sys.exit(is_bad or bool(source.unread))


def _row(finding: LintFinding) -> str:
    lead = printable(f"{finding.severity.value:8} {finding.id:26} ")
    return with_margin(lead, printable(f"{finding.subject} {finding.field}: {finding.message}"))


async def _of_cluster(access: Access) -> list[Any]:
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.cluster_watch import definitions  # noqa: PLC0415
    from webhook.install.installing import registrations  # noqa: PLC0415

    async with access.connected() as rest:
        return [*await registrations(rest), *await definitions(rest)]
