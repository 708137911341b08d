"""`genguard findings --controllers`: whether controllers raise observedGeneration honestly."""

from typing import TYPE_CHECKING, Final

import click
import msgspec

from genguard.detection.honesty import HOW, WriterHonesty
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone
from webhook.cli import output as terminal
from webhook.cli.formats import Format, in_order, print_objects
from webhook.cli.output import tell

if TYPE_CHECKING:
    from webhook.cli.asking_server import ServerChoice

_HEADER: Final = ("CONTROLLER", "MANAGER", "KIND", *(one.upper() for one in HOW))
_WRONG: Final = ("early", "never", "backwards")


class ControllersAnswer(msgspec.Struct, frozen=True):
    """What is read of the answer to /api/controllers."""

    controllers: tuple[WriterHonesty, ...]
    judged: bool = True


async def show(
    choice: "ServerChoice", kubeconfig: str | None, context: str | None, output: Format
) -> None:
    """Print a row for each controller, those who are wrong most often first."""
    from webhook.cli.asking_server import server_of  # noqa: PLC0415 - the help needs none of it

    async with server_of(choice, kubeconfig, context) as server:
        answer = await server.ask("/api/controllers", {}, ControllersAnswer)
    found = in_order(answer.controllers if answer else (), output.order, lambda one: one)
    if answer is not None and not answer.judged:
        tell("This replica judges no writes: ask the one that leads; genguard doctor names it.")
    elif not found:
        tell("No controller has written observedGeneration since the server started.")
    if not output.is_table:
        print_objects(found, output, lambda one: one.user)
    elif found:
        rows = [tuple(Cell(title, Tone.FAINT) for title in _HEADER), *map(_row, found)]
        for text in terminal.lines(rows, headless=output.headless):
            click.echo(text)


def _row(one: WriterHonesty) -> Row:
    return (
        Cell(printable(one.user)),
        Cell(printable(one.field_manager)),
        Cell(printable(one.example.resource_name)),
        *(_count(one, how) for how in HOW),
    )


def _count(one: WriterHonesty, how: str) -> Cell:
    """`12 (40%)`: of the times that the number was raised, or was to be."""
    number: int = getattr(one, how)
    of = one.raised + one.never
    if how == "raised" or not number:
        return Cell(str(number))
    tone = Tone.MILD if how in _WRONG else Tone.FAINT
    return Cell(f"{number} ({number / of:.0%})" if of else str(number), tone)
