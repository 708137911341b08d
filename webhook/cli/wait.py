"""`genguard wait`: until objects are what they are waited to be."""

import asyncio
import sys
from typing import Any

import click

from webhook.cli.cluster import asks_cluster, namespace_of, telling
from webhook.cli.duration import duration
from webhook.cli.objects import MAX_LINE, FileObjects
from webhook.objects.served import UnknownTargetError
from webhook.objects.shown import printable
from webhook.status.targets import RequestedTarget, parse_targets, target_of_manifest
from webhook.status.wait_goal import BadGoalError, Goal, parse_goal


def _goals(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Goal, ...]:
    try:
        return tuple(map(parse_goal, texts))
    except BadGoalError as error:
        raise click.BadParameter(str(error)) from error


@click.command(short_help="Wait until objects are ready and settled.")
@click.option(
    "--for",
    "goals",
    multiple=True,
    default=("ready", "settled"),
    show_default=True,
    metavar="GOAL",
    callback=_goals,
    help="ready, settled, health=green, reconciled (settled at the generation of now or a later "
    "one) or reconciled=N. Repeat it to wait for several at once.",
)
@click.option(
    "--timeout",
    "seconds",
    default="5m",
    show_default=True,
    metavar="DURATION",
    callback=duration(24),
    help="How long to wait: 30s, 1m30s, up to 24h.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|-",
    help="Wait for the objects that a file names, as kubectl apply -f has made them.",
)
@MAX_LINE
@asks_cluster
def wait(words: tuple[str, ...], **flags: Any) -> None:
    """Wait until objects are ready and settled, and tell what they lack meanwhile.

    Several objects are waited for until all are there at the same moment. What does not exist yet
    is waited for, its kind included. Each object counts with everything that it owns.

    The exit code is 0 when all is reached, 1 when an object has failed for good: past its progress
    deadline, ended badly, Stalled, being deleted; or it could not be asked. 2 when time is up, or
    the command line is wrong.
    """
    asked = _asked(words, flags.pop("files"), flags.pop("max_line"), selector=flags["selector"])
    numbered = [goal for goal in flags["goals"] if goal.generation is not None]
    if numbered and (len(asked) > 1 or not asked[0].name):
        raise click.UsageError(f"--for {numbered[0].text} is about one object: give KIND/NAME")
    with telling():
        ending = _wait(tuple(asked), **flags)
    sys.exit(ending)


def _asked(
    words: tuple[str, ...], files: tuple[str, ...], max_line: int, *, selector: str
) -> list[RequestedTarget]:
    if bool(words) == bool(files):
        raise click.UsageError("give either KIND/NAME, KIND -l SELECTOR or -f FILE")
    if not files:
        try:
            asked = parse_targets(words)
        except UnknownTargetError as error:
            raise click.UsageError(str(error)) from error
        if selector and any(one.name for one in asked):
            raise click.UsageError("an object is chosen by its name or by -l, not by both")
        return asked
    if selector:
        raise click.UsageError("the objects of a file are all waited for: leave out -l")
    objects = FileObjects(files, max_line)
    found = [target_of_manifest(document) for document in objects]
    named = [one for one in found if one is not None]
    if objects.unread or len(named) < len(found) or not named:
        raise click.ClickException("not every object of the files has a kind and a name")
    return named


def _wait(
    asked: tuple[RequestedTarget, ...],
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    all_namespaces: bool,
    **flags: Any,
) -> int:
    from webhook.cluster.target import default_kubeconfig  # noqa: PLC0415
    from webhook.verbs.waiting import WaitOptions, wait  # noqa: PLC0415

    kubeconfig = kubeconfig or default_kubeconfig()
    within = namespace_of(kubeconfig, context, namespace, asked, every=all_namespaces)
    options = WaitOptions(
        kubeconfig=kubeconfig, context=context, asked=asked, namespace=within, **flags
    )
    return asyncio.run(wait(options, _tell))


def _tell(text: str) -> None:
    click.echo(printable(text))
