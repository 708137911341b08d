"""`genguard lint`: webhooks and CustomResourceDefinitions checked for what breaks clusters."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import click

from genguard.formats.documents import Unreadable, bounded, read_documents
from genguard.linting.check import Level, LintFinding
from genguard.linting.checks import CHECKS
from genguard.linting.definition import is_definition
from genguard.linting.hook import MUTATING, VALIDATING
from genguard.linting.lint import lint as look
from genguard.linting.lint import to_sarif
from genguard.objects.shown import json_line, printable
from webhook import __version__
from webhook.cli.errors import next_step, one_line_errors
from webhook.cli.files import MANIFESTS, MAX_LINE, advice, expand_or_fail, open_named, texts_of
from webhook.cli.options import CONTEXT, RECURSIVE, examples
from webhook.cli.output import tell, with_margin

_CONFIGURATIONS: Final = (MUTATING, VALIDATING)
_REGISTERED: Final = "/apis/admissionregistration.k8s.io/v1"
_WEBHOOKS: Final = "webhooks"
_CRDS: Final = "crds"
_WANTED: Final = {
    _WEBHOOKS: "webhook configuration",
    _CRDS: "CustomResourceDefinition",
    None: "webhook configuration or CustomResourceDefinition",
}


@click.command(
    epilog=examples(
        ("The manifests of a repository", "genguard lint -R manifests/"),
        (
            "Those of a cluster, failing on warnings as well",
            "genguard lint --context production --fail-on warning",
        ),
        ("For code scanning", "genguard lint -o sarif manifests/"),
    ),
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "table", "sarif"]),
    default="table",
    show_default=True,
    help="A table for people, JSON for programs (an object a line), or SARIF for code scanning.",
)
@click.option(
    "--kubeconfig", metavar="FILE|in-cluster", help="Check those of a cluster instead of FILEs."
)
@CONTEXT
@click.option(
    "--fail-on",
    type=click.Choice([level.value for level in Level]),
    default=Level.ERROR.value,
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option(
    "--only",
    type=click.Choice([_WEBHOOKS, _CRDS]),
    help="Check webhook configurations alone, or CustomResourceDefinitions alone.",
)
@RECURSIVE
@MAX_LINE
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER|URL...|-]")
def lint(
    files: tuple[str, ...],
    *,
    output: str,
    kubeconfig: str | None,
    context: str | None,
    fail_on: str,
    only: str | None,
    recursive: bool,
    max_line: int,
) -> None:
    """Check webhook configurations and CustomResourceDefinitions for what breaks clusters.

    FILE holds JSON or YAML, one, several documents or a List; what is no webhook configuration,
    CustomResourceDefinition or Service is passed over. It is a file, a folder, an https URL, or -
    for standard input.

    The exit code is 0 when nothing was found that is severe enough, 1 when something was or the
    input cannot be read, 2 when the command line is wrong.
    """
    of_cluster = bool(kubeconfig or context)
    if bool(files) == of_cluster:
        raise click.UsageError("give either FILEs or --kubeconfig or --context")
    names = expand_or_fail(files, MANIFESTS, recursive=recursive)
    documents = [one for name in names for one in _documents(name, max_line)]
    is_whole = True
    if of_cluster:
        with one_line_errors():
            documents, is_whole = asyncio.run(_of_cluster(kubeconfig, context, only))
    documents = [one for one in documents if _is_wanted(one, only)]
    found = look(documents, at=datetime.now(UTC), live=of_cluster)
    if output == "sarif":
        click.echo(json_line(to_sarif(found, CHECKS, texts_of(names), __version__)))
    else:
        _print_findings(found, output)
    if not any(_is_configuration(one) or is_definition(one) for one in documents):
        where = "the cluster" if of_cluster else ", ".join(files)
        tell(f"No {_WANTED[only]} found in {where}.")
    is_bad = any(one.severity.rank <= Level(fail_on).rank for one in found)
    sys.exit(1 if is_bad or not is_whole else 0)


def _print_findings(found: Sequence[LintFinding], output: str) -> None:
    for one in found:
        click.echo(json_line(one) if output == "json" else _row(one))
    counts = {level.value: sum(one.severity is level for one in found) for level in Level}
    if output == "json":
        click.echo(json_line({"type": "summary", **counts}))
    else:
        click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))


def _is_configuration(document: Any) -> bool:
    return isinstance(document, dict) and document.get("kind") in _CONFIGURATIONS


def _is_wanted(document: Any, only: str | None) -> bool:
    """Whether --only leaves a document in; Services stay, for checks of webhooks use them."""
    if only == _WEBHOOKS:
        return not is_definition(document)
    return only is None or not _is_configuration(document)


def _row(one: LintFinding) -> str:
    lead = printable(f"{one.severity.value:8} {one.id:26} ")
    return with_margin(lead, printable(f"{one.subject} {one.field}: {one.message}"))


def _documents(name: str, max_line: int) -> Iterator[Any]:
    try:
        with open_named(name) as stream:
            for found in read_documents(bounded(stream, max_line)):
                if isinstance(found, Unreadable):
                    raise click.ClickException(f"{name}: {found}; {advice(found)}")
                yield found.value
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror}") from error


async def _of_cluster(
    given: str | None, context: str | None, only: str | None
) -> tuple[list[Any], bool]:
    """Read webhook configurations and definitions from the API server, and whether that is all."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.connection import connected, default_kubeconfig  # noqa: PLC0415
    from webhook.cluster.facts import definitions  # noqa: PLC0415
    from webhook.cluster.rest import RefusedError, Rest  # noqa: PLC0415

    found: list[Any] = []
    async with connected(given or default_kubeconfig(), context) as api:
        rest = Rest(api)
        for kind in _CONFIGURATIONS if only != _CRDS else ():
            found += await rest.list_all(f"{_REGISTERED}/{kind.lower()}s", kind=kind)
        if only == _WEBHOOKS:
            return found, True
        try:
            found += await definitions(rest)
        except RefusedError as error:
            # An account that may read webhooks alone still gets these checked.
            if only == _CRDS or error.status != HTTPStatus.FORBIDDEN:
                raise
            tell(
                f"CustomResourceDefinitions are not checked: {error}; {next_step(error)}, or give "
                f"--only {_WEBHOOKS}"
            )
            return found, False
    return found, True
