"""`genguard replay`: what genguard would have answered to recorded reviews."""

import sys
from pathlib import Path

import click

from genguard.detection.finding import Severity
from genguard.objects.shown import printable
from genguard.replay import Replay, as_row, finding_row
from genguard.review_setup import ReviewOptions
from webhook.cel.evaluator import Evaluator
from webhook.cli.audit_logs import find_audit_log, printed_by
from webhook.cli.files import MAX_LINE, UnreadFileError, lines_of, of_recording, open_named
from webhook.cli.options import OUTPUT, verb
from webhook.cli.output import object_line, tell, with_margin
from webhook.files.given import load_definitions, load_mutators


@verb()
@of_recording
@click.option("--fail-on", type=click.Choice([severity.value for severity in Severity]))
@MAX_LINE
@OUTPUT
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def replay(
    *,
    server_version: str,
    crds: Path | None,
    webhooks: Path | None,
    fail_on: str | None,
    max_line: int,
    output: str,
    files: tuple[str, ...],
) -> None:
    """Examine recorded reviews again."""
    evaluator = click.get_current_context().with_resource(Evaluator())
    definitions = load_definitions(crds) if crds else ()
    options = ReviewOptions(server_version=server_version, custom_resources=definitions)
    run = Replay(options, load_mutators(webhooks, evaluator))
    write = object_line if output == "json" else as_row
    opened = open_named if files else printed_by
    files = files or find_audit_log()
    for name in files:
        try:
            for found in run.lines(lines_of(name, max_line, opened), name):
                click.echo(write(found), err=found["type"] == "error")
        except UnreadFileError as error:
            click.echo(write(run.leave_out(name, error.reason)), err=True)
    least = Severity(fail_on).rank if fail_on else len(Severity)
    is_severe = False
    for finding in run.findings():
        is_severe = is_severe or Severity(finding["severity"]).rank >= least
        if output == "json":
            click.echo(object_line(finding))
        elif not finding.get("partOf"):  # the finding that it is part of says how many there are
            click.echo(with_margin(*finding_row(finding)))
    summary = run.summary()
    for entry in summary.get("notExamined", ()) if output == "table" else ():
        click.echo(printable(entry["message"]))
    click.echo(write(summary))
    if run.is_empty:
        tell(f"No reviews or events found in {', '.join(files)}.")
    sys.exit(1 if run.unreadable or is_severe else 0)
