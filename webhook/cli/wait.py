"""`genguard wait`: waits until objects have reached a goal, one never will, or time is up."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from genguard.status.targets import RequestedTarget, target_of_manifest
from genguard.status.wait_goal import BadGoalError, Goal, parse_goals
from webhook.cli.files import MAX_LINE, FileObjects
from webhook.cli.options import RECURSIVE, Access, asks_objects, filenames, timeout, verb
from webhook.cli.output import say
from webhook.cli.rules import RULES, rule_evaluator


def _goals(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Goal, ...]:
    try:
        return parse_goals(texts)
    except BadGoalError as error:
        raise click.BadParameter(str(error)) from error


@verb()
@click.option(
    "--for",
    "goals",
    multiple=True,
    default=("ready", "settled"),
    show_default=True,
    metavar="GOAL",
    callback=_goals,
)
@timeout("5m", hours=24)
@filenames("FILE|FOLDER|-")
@RECURSIVE
@RULES
@MAX_LINE
@asks_objects
def wait(words: tuple[str, ...], access: Access, *, rules: Path | None, **flags: Any) -> None:
    """Wait until objects are ready and settled, and tell what they lack meanwhile."""
    # Imported here: the API client loads for half a second.
    from webhook.cli.targets import Targets, Waiting, asked_by  # noqa: PLC0415

    files, recursive = flags.pop("files"), flags.pop("recursive")
    objects = FileObjects(files, flags.pop("max_line"), recursive=recursive)
    if bool(words) == bool(files):
        raise click.UsageError("give either KIND/NAME, KIND -l SELECTOR or -f FILE")
    if files and flags["selector"]:
        raise click.UsageError("the objects of a file are all waited for: leave out -l")
    asked = asked_by(words, flags["selector"]) if words else _named_in(objects)
    goals, seconds = flags.pop("goals"), flags.pop("seconds")
    numbered = [goal for goal in goals if goal.generation is not None]
    if numbered and (len(asked) > 1 or not asked[0].name):
        raise click.UsageError(f"--for {numbered[0].text} is about one object: give KIND/NAME")
    with rule_evaluator(rules) as ask_rules:
        targets = Targets.of(access, asked, ask_rules, **flags)
        ending = asyncio.run(Waiting(targets, goals, seconds, say).run())
    sys.exit(ending)


def _named_in(objects: FileObjects) -> list[RequestedTarget]:
    found = [target_of_manifest(document) for document in objects]
    named = [target for target in found if target is not None]
    if objects.unread or len(named) < len(found) or not named:
        raise click.ClickException("not every object of the files has a kind and a name")
    return named
