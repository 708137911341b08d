"""`genguard reproduce`: the smallest reproducer of a finding, for those who can correct it."""

import asyncio
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from genguard.detection.finding import Finding
from genguard.formats.documents import Line, LongLine, bounded
from genguard.generation.strategy import UnknownServerVersionError
from genguard.replay import Replay
from genguard.reproduce.recorded import NewReplay, RecordedWrite, findings_in, sampled, writes_of
from genguard.reproduce.reduce import NotFoundError
from genguard.reproduce.reproducer import Reproducer, folder_of, reproducer
from genguard.review_setup import ReviewOptions
from webhook.cel.evaluator import Evaluator
from webhook.cli.errors import one_line_errors
from webhook.cli.files import MAX_LINE, of_recording, open_unpacked
from webhook.cli.options import (
    CONTEXT,
    FINDING,
    KUBECONFIG,
    asks_server,
    examples,
    finding_id,
)
from webhook.cli.output import tell
from webhook.files.given import BadFileError, load_definitions, load_suspects

_NAMED = 5


@click.command(
    epilog=examples(
        (
            "Of a recording of serve --record",
            "genguard reproduce finding/1f4e8d0b2c6a9e35 -o reproduce reviews.ndjson",
        ),
        (
            "Of what a running genguard has kept",
            "genguard reproduce finding/1f4e8d0b2c6a9e35 -o reproduce",
        ),
    ),
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder to write; it must be empty, or not be there.",
)
@click.option(
    "--keep-names",
    is_flag=True,
    help="Leave names and values as they are, for a team that may see them.",
)
@of_recording
@MAX_LINE
@KUBECONFIG
@CONTEXT
@asks_server
@click.argument("finding", metavar="finding/ID")
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def reproduce(
    finding: str,
    *,
    files: tuple[str, ...],
    folder: Path,
    keep_names: bool,
    server_version: str,
    crds: Path | None,
    webhooks: Path | None,
    max_line: int,
    server: str | None,
    token: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Write the smallest test that shows a loop, for the team whose webhook or controller it is.

    FILE is a recording of `serve --record`. It is reduced to the fewest writes and fields that
    still give the finding, and names and values are replaced. Without FILE, a running genguard is
    asked for the one write that it keeps of the finding.

    DIR then has README.md, reviews.ndjson, and the loop as a test for pytest: red as recorded,
    green without who makes it, and with your corrected webhook in its place.

    The exit code is 0, 1 when the finding is not made by these writes, or nothing can be read or
    written, 2 when the command line is wrong.
    """
    name = finding_id(finding)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"-o {folder} is there and not empty: name another folder")
    evaluator = click.get_current_context().with_resource(Evaluator())
    try:
        definitions = load_definitions(crds) if crds else ()
        options = ReviewOptions(
            audit_only=True, server_version=server_version, custom_resources=definitions
        )
        suspects = load_suspects(webhooks, evaluator)
        Replay(options)
    except (BadFileError, UnknownServerVersionError) as error:
        raise click.UsageError(str(error)) from error
    with one_line_errors():
        writes = list(_recorded(files, max_line))
        if files:
            found = _in_recording(name, files, writes, lambda: Replay(options, suspects.anew()))
        else:
            found = _of_server(name, server, token, kubeconfig, context)
            writes = _kept(found)
        made = _made(
            writes,
            found,
            lambda: Replay(options, suspects.anew()),
            server_version,
            keeps_names=keep_names,
            is_sample=not files,
        )
    _write(folder, made)
    kinds, fields = len(made.loop.writes), made.fields
    click.echo(f"{folder}: {kinds} kind(s) of write, {fields} field(s); read {folder}/README.md")


def _made(
    writes: Sequence[RecordedWrite],
    found: Finding,
    new_replay: NewReplay,
    version: str,
    *,
    keeps_names: bool,
    is_sample: bool,
) -> Reproducer:
    try:
        return reproducer(
            writes,
            found,
            new_replay,
            server_version=version,
            keeps_names=keeps_names,
            is_sample=is_sample,
        )
    except NotFoundError as error:
        raise click.ClickException(
            f"{error}: give the whole recording, oldest file first, with the --crds and --webhooks "
            "that were there"
        ) from error


def _recorded(files: tuple[str, ...], max_line: int) -> Iterator[RecordedWrite]:
    for name in files:
        try:
            with open_unpacked(name) as (stream, _):
                found = writes_of(_short(name, bounded(stream, max_line)))
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or "is no whole gzip file"
            raise click.ClickException(f"{name}: {reason}") from error
        if found.faults and not found.writes:
            raise click.ClickException(
                f"{name}: {found.faults[0]}; reproduce reads recordings of serve --record, not "
                "audit logs"
            )
        if found.faults:
            tell(f"{name}: {found.faults[0]}; {len(found.faults)} left out in all.")
        yield from found.writes


def _short(name: str, lines: Iterable[Line]) -> Iterator[bytes]:
    for line in lines:
        if isinstance(line, LongLine):
            raise click.ClickException(f"{name}: {line}: raise --max-line to read it")
        yield line


def _in_recording(
    name: str, files: Sequence[str], writes: Sequence[RecordedWrite], new_replay: NewReplay
) -> Finding:
    if not writes:
        raise click.ClickException(f"{', '.join(files)}: no recorded reviews")
    known = findings_in(writes, new_replay)
    found = next((one for one in known if one.id == name), None)
    if found is not None and found.objects is not None:
        found = next((one for one in known if one.part_of == name), None)
    if found is not None:
        return found
    listed = ", ".join(f"{FINDING}{one.id} ({one.detector})" for one in known[:_NAMED])
    more = f"it has {listed}" if known else "it has no finding: are --crds and --webhooks missing?"
    raise click.ClickException(f"the recording has no {FINDING}{name}; {more}")


def _of_server(
    name: str, server: str | None, token: str, kubeconfig: str | None, context: str | None
) -> Finding:
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cli.asking_server import ServerChoice, finding_of  # noqa: PLC0415

    return asyncio.run(finding_of(name, ServerChoice(server, token), kubeconfig, context))


def _kept(found: Finding) -> list[RecordedWrite]:
    if found.diff is None:
        raise click.ClickException(
            f"genguard keeps no write of {FINDING}{found.id} field by field: record the loop with "
            "serve --record, and name the file"
        )
    tell("Values that genguard does not show are other texts here.")
    return [sampled(found, found.diff)]


def _write(folder: Path, made: Reproducer) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in folder_of(made).items():
            (folder / name).write_bytes(content)
    except OSError as error:
        tell(f"{folder}: {error.strerror}")
        sys.exit(1)
