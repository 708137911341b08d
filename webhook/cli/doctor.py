"""`genguard doctor`: what is well, what is not, and the command that mends it."""

import asyncio
import sys

import click

from webhook.cli.administer import looks
from webhook.cli.cluster import OUTPUT, telling
from webhook.doctor.diagnose import diagnose
from webhook.doctor.result import CheckResult, Level
from webhook.objects.shown import json_line, printable

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command()
@OUTPUT
@looks
def doctor(output: str, namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Tell whether genguard is well in a cluster.

    Whether it does its work, and holds up nobody else's. Creates nothing: a dry run in namespace
    default must be seen in every phase. Each line says how something stands, and if it is not
    well, the command that mends it.

    The exit code is 0 when all is well, 1 when something warns, 2 when something fails or the
    cluster cannot be asked.
    """
    lines = _look(kubeconfig, context, namespace)
    for line in lines:
        click.echo(json_line(line) if output == "json" else _row(line))
    counts = {level.value: sum(line.level is level for line in lines) for level in Level}
    if output == "json":
        click.echo(json_line({"type": "summary", **counts}))
    else:
        click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    sys.exit(max(line.level.rank for line in lines))


def _look(kubeconfig: str | None, context: str | None, namespace: str) -> tuple[CheckResult, ...]:
    from webhook.verbs.examination import examine  # noqa: PLC0415

    try:
        with telling():
            return diagnose(asyncio.run(examine(kubeconfig, context, namespace)))
    except click.ClickException as error:
        return (
            CheckResult(Level.FAIL, "api-server", error.format_message(), "kubectl cluster-info"),
        )


def _row(line: CheckResult) -> str:
    level = click.style(f"{line.level.value:5}", fg=_COLOURS[line.level])
    told = f"{line.message}{f'  — {line.repair}' if line.repair else ''}"
    return f"{level}{line.id:14}{printable(told)}"
