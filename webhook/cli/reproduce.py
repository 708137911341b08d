"""`genguard reproduce`: the smallest reproducer of a finding, for those who can correct it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from genguard.detection.finding import Finding
from genguard.formats.documents import LongLine
from genguard.replay import Replay
from genguard.reproduce.recorded import (
    NewReplay,
    NotFoundError,
    RecordedWrite,
    findings_in,
    writes_of,
)
from genguard.reproduce.reproducer import folder_of, reproducer
from genguard.review_setup import ReviewOptions
from webhook.cel.evaluator import Evaluator
from webhook.cli.files import MAX_LINE, lines_of, of_recording
from webhook.cli.options import FINDING, finding_id, verb
from webhook.cli.output import tell
from webhook.files.given import load_definitions, load_mutators

_NAMED = 5


@verb()
@click.option(
    "-o", "--output", "folder", metavar="DIR", type=click.Path(path_type=Path), required=True
)
@click.option("--keep-names", is_flag=True)
@of_recording
@MAX_LINE
@click.argument("finding", metavar="ID")
@click.argument("files", nargs=-1, metavar="FILE...|-")
def reproduce(
    *,
    finding: str,
    files: tuple[str, ...],
    folder: Path,
    keep_names: bool,
    server_version: str,
    crds: Path | None,
    webhooks: Path | None,
    max_line: int,
) -> None:
    """Write the smallest test that shows a loop, for the team whose webhook or controller it is."""
    name = finding_id(finding)
    if not files:
        raise click.UsageError(
            f"{FINDING}{name} needs a recording as FILE, and an installed server keeps none: "
            "genguard serve --record FILE makes one while the loop goes on"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"-o {folder} is there and not empty: name another folder")
    evaluator = click.get_current_context().with_resource(Evaluator())
    definitions = load_definitions(crds) if crds else ()
    options = ReviewOptions(
        audit_only=True, server_version=server_version, custom_resources=definitions
    )
    mutators = load_mutators(webhooks, evaluator)

    def new_replay() -> Replay:
        return Replay(options, mutators.anew())

    _ = new_replay()  # refuses at once what is no version of a server
    writes = list(_recorded(files, max_line))
    found = _in_recording(name, files, writes, new_replay)
    try:
        made = reproducer(
            writes, found, new_replay, server_version=server_version, keeps_names=keep_names
        )
    except NotFoundError as error:
        raise click.ClickException(
            f"{error}: give the whole recording, oldest file first, with the --crds and "
            "--webhooks that were there, or --keep-names"
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in folder_of(made).items():
        (folder / file).write_bytes(content)
    click.echo(f"{folder}: {len(made.loop.writes)} kind(s) of write; read {folder}/README.md")


def _recorded(files: tuple[str, ...], max_line: int) -> Iterator[RecordedWrite]:
    for name in files:
        writes, faults = writes_of(_short(name, max_line))
        if faults and not writes:
            raise click.ClickException(
                f"{name}: {faults[0]}; reproduce reads recordings of serve --record, not audit logs"
            )
        if faults:
            tell(f"{name}: {faults[0]}; {len(faults)} left out in all.")
        yield from writes


def _short(name: str, max_line: int) -> Iterator[bytes]:
    for line in lines_of(name, max_line):
        if isinstance(line, LongLine):
            raise click.ClickException(f"{name}: {line}: raise --max-line to read it")
        yield line


def _in_recording(
    name: str, files: Sequence[str], writes: Sequence[RecordedWrite], new_replay: NewReplay
) -> Finding:
    if not writes:
        raise click.ClickException(f"{', '.join(files)}: no recorded reviews")
    known = findings_in(writes, new_replay)
    found = next((finding for finding in known if finding.id == name), None)
    if found is not None and found.objects is not None:
        found = next((finding for finding in known if finding.part_of == name), None)
    if found is not None:
        return found
    listed = ", ".join(f"{FINDING}{finding.id} ({finding.detector})" for finding in known[:_NAMED])
    more = f"it has {listed}" if known else "it has no finding: are --crds and --webhooks missing?"
    raise click.ClickException(f"the recording has no {FINDING}{name}; {more}")
