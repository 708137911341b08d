"""`genguard findings`: what a running server has found, and who causes it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec

from genguard.audit.event import ObjectReference
from genguard.blame.audited import kind_in_log
from genguard.detection.causes import beneath_causes
from genguard.detection.detectors import ALL
from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.detection.honesty import HOW, WriterHonesty
from genguard.formats.json_path import JsonPath
from genguard.generation.table import load_rows
from genguard.objects.fields import from_pointer, to_field_path
from genguard.objects.metadata import parse_time
from genguard.objects.selectors import Requirement, parse_label_selector
from genguard.objects.served import UnknownTargetError, split_target
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone
from webhook.cli import output as terminal
from webhook.cli.errors import one_line_errors
from webhook.cli.options import CONTEXT, KUBECONFIG, asks_server, examples
from webhook.cli.output import (
    NO_HEADERS,
    SORT_BY,
    Format,
    in_order,
    output_option,
    print_objects,
    tell,
)
from webhook.serve.flags import duration

if TYPE_CHECKING:
    from webhook.cli.asking_server import Server, ServerChoice

_AGAIN_SECONDS: Final = 2.0
_OUTPUTS: Final = ("table", "wide", "json", "yaml", "name", "jsonpath", "custom-columns")
_LABELS: Final = ("detector", "finding", "group", "name", "namespace", "resource", "severity")
"""What -l chooses by. All but the last are labels of the alert, in Alertmanager too."""
_STATES: Final = ("open", "quiet", "resolved", "all")
_NARROW: Final = ("ID", "SEVERITY", "STATE", "DETECTOR", "OBJECT", "COUNT", "LAST", "CULPRIT")
_WIDE: Final = (*_NARROW[:-1], "FIRST", "FIELDS", "CULPRIT", "MESSAGE")
_TONES: Final = {
    Severity.CRITICAL: Tone.BAD,
    Severity.WARNING: Tone.MILD,
    Severity.INFO: Tone.FAINT,
}
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"))
_SHOWN_UNITS: Final = 2
IsMeant = Callable[[FoundObject], bool]


class FindingFilter(NamedTuple):
    """The flags that choose findings; an empty value is no filter.

    severity  the least one
    selector  the labels of -l
    seconds   the latest sign was within so many; None: at any time
    """

    namespace: str
    state: str
    severity: str
    detector: str
    selector: tuple[Requirement, ...]
    seconds: float | None
    object: IsMeant | None
    name: str

    @property
    def query(self) -> dict[str, str]:
        """What the server filters by itself."""
        return {"namespace": self.namespace, "state": self.state, "detector": self.detector}

    def select(self, findings: Sequence[Finding], now: float) -> list[Finding]:
        """Return those that are meant, each that follows from another directly beneath it."""
        return beneath_causes(one for one in findings if self._is_meant(one, now))

    def _is_meant(self, one: Finding, now: float) -> bool:
        least = list(Severity).index(Severity(self.severity)) if self.severity else 0
        return (
            list(Severity).index(one.severity) >= least
            and (self.object is None or self.object(one.object))
            and self.name in ("", one.object.name)
            and all(wanted.fits(_labels(one)) for wanted in self.selector)
            and (self.seconds is None or _age(one.last_seen, now) <= self.seconds)
        )

    def __str__(self) -> str:
        """`open findings in namespace shop`."""
        state = "" if self.state == "all" else f"{self.state} "
        where = f" in namespace {self.namespace}" if self.namespace else ""
        others = (self.severity, self.detector, self.selector, self.object, self.seconds)
        more = " that match the other flags" if any(others) else ""
        return f"{state}findings{where}{more}"


def _selector(_: click.Context, __: click.Parameter, text: str) -> tuple[Requirement, ...]:
    """Read -l; a key that no finding has is refused, for it would choose none, or all."""
    try:
        found = tuple(parse_label_selector(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    for one in found:
        if one.key not in _LABELS:
            raise click.BadParameter(
                f"a finding has no label {one.key!r}, and the labels of its object are not known; "
                f"it has {', '.join(_LABELS)}"
            )
    return found


def _labels(one: Finding) -> dict[str, str]:
    return {**one.labels, "severity": one.severity.value}


@click.command(
    epilog=examples(
        ("What is open in the whole cluster, the worst first", "genguard findings"),
        ("Follow what is found in one namespace", "genguard findings -n shop -w"),
        (
            "Of one object, with the fields and the message",
            "genguard findings deploy/web -n shop -o wide",
        ),
        (
            "Of one detector, except in one namespace",
            "genguard findings -l 'detector=spec-fight,namespace!=sandbox'",
        ),
        (
            "Who does what, in columns of your own",
            "genguard findings -o custom-columns=WHO:.actors[0].name,WHAT:.detector",
        ),
        ("The one that was seen most often last", "genguard findings --sort-by=.count"),
        ("Whether observedGeneration is honest", "genguard findings --controllers"),
    ),
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Of objects in this namespace.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="In every namespace, which is the default."
)
@click.option(
    "--state",
    type=click.Choice(_STATES),
    default=_STATES[0],
    show_default=True,
    help="open: with those that are quiet, but still broken, and those that are ending.",
)
@click.option(
    "--severity",
    type=click.Choice([one.value for one in Severity]),
    help="The least severity.  [default: all]",
)
@click.option(
    "--detector",
    type=click.Choice(sorted(one.name for one in ALL)),
    metavar="DETECTOR",
    help="Of this detector alone, such as observed-generation-cleared.",
)
@click.option(
    "--since",
    "seconds",
    metavar="DURATION",
    type=duration(24 * 365),
    help="Whose latest sign is so long ago at most: 90s, 10m, 1h30m, 2d.",
)
@click.option(
    "-l",
    "--selector",
    metavar="LABELS",
    default="",
    callback=_selector,
    help=f"Only findings with these labels, written as for kubectl: {', '.join(_LABELS)}. All but "
    "severity are labels of the alert in Alertmanager, too. Labels of the object are not known.",
)
@click.option(
    "--controllers",
    is_flag=True,
    help="Instead of findings: how often each controller has raised observedGeneration, and how "
    "often too early, late, never or backwards.",
)
@click.option("-w", "--watch", is_flag=True, help="Again after every change, until interrupted.")
@output_option(
    *_OUTPUTS,
    text="json, yaml, name, jsonpath and custom-columns: a line or document for each finding; "
    "docs/schemas/findings.json has the fields.",
)
@SORT_BY
@NO_HEADERS
@KUBECONFIG
@CONTEXT
@asks_server
@click.argument("target", metavar="[KIND|KIND/NAME]", default="")
def findings(
    target: str,
    *,
    namespace: str,
    all_namespaces: bool,
    state: str,
    severity: str | None,
    detector: str | None,
    selector: tuple[Requirement, ...],
    seconds: float | None,
    controllers: bool,
    watch: bool,
    output: Format,
    order: JsonPath | None,
    headless: bool,
    kubeconfig: str | None,
    context: str | None,
    server: str | None,
    token: str,
) -> None:
    """Tell what a running genguard has found, and who causes it.

    It asks the genguard that is installed in the cluster, through the API server (which takes the
    right to list pods and to get and create pods/portforward in its namespace), or the one of
    --server. The worst and latest findings come first; what follows from another finding is
    beneath it. genguard explain finding/ID says what ends one.

    The exit code is 0 whatever is found, 1 when no server could be asked, 2 when the command line
    is wrong.
    """
    from webhook.cli.asking_server import ServerChoice  # noqa: PLC0415

    meant, name = _meant(target)
    filters = (severity or "", detector or "", selector, seconds, meant, name)
    wanted = FindingFilter("" if all_namespaces else namespace, state, *filters)
    output = output.listing(order, headless=headless, watch=watch)
    if controllers and (watch or any((namespace, target, *filters))):
        raise click.UsageError("--controllers takes -o, --sort-by and flags of the server alone")
    with one_line_errors():
        choice = ServerChoice(server, token)
        if controllers:
            asyncio.run(_show_controllers(choice, kubeconfig, context, output))
            return
        run = _follow if watch else _once
        asyncio.run(run(wanted, choice, kubeconfig, context, output))


def _meant(target: str) -> tuple[IsMeant | None, str]:
    """Read KIND or KIND/NAME; no cluster is asked what it has."""
    if not target:
        return None, ""
    try:
        kind, name = split_target(target) if "/" in target else (target, "")
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error
    is_kind = kind_in_log(kind, load_rows())
    return lambda where: is_kind(_reference(where)), name


def _reference(where: FoundObject) -> ObjectReference:
    return ObjectReference(
        api_group=where.group, api_version=where.version, resource=where.resource
    )


async def _once(
    wanted: FindingFilter,
    choice: "ServerChoice",
    kubeconfig: str | None,
    context: str | None,
    output: Format,
) -> None:
    from webhook.cli.asking_server import server_of  # noqa: PLC0415

    async with server_of(choice, kubeconfig, context) as server:
        found = await _ask(server, wanted)
    if found:
        _print(found, output)
    else:
        tell(f"No {wanted}.")


async def _follow(
    wanted: FindingFilter,
    choice: "ServerChoice",
    kubeconfig: str | None,
    context: str | None,
    output: Format,
) -> None:
    """Show findings after every change; a server that is lost is looked for again, for ever."""
    from webhook.cli.asking_server import NoServerError, server_of  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415

    show = _shown_again(output)
    was_reached, told = False, ""
    while True:
        try:
            async with server_of(choice, kubeconfig, context) as server:
                async for _ in server.turns():
                    show(await _ask(server, wanted))
                    was_reached, told = True, ""
        except (NoServerError, RefusedError, *UNREACHED) as error:
            if not was_reached:
                raise
            reason = str(error) or type(error).__name__
            if reason != told:
                tell(f"trying again: {reason}")
                told = reason
        await asyncio.sleep(_AGAIN_SECONDS)


async def _ask(server: "Server", wanted: FindingFilter) -> list[Finding]:
    from webhook.cli.following import FindingsAnswer  # noqa: PLC0415

    found = await server.ask("/api/findings", wanted.query, FindingsAnswer)
    return wanted.select(found.findings if found else (), time.time())


def _shown_again(output: Format) -> Callable[[Sequence[Finding]], None]:
    """On a terminal a table is drawn over the last one; elsewhere, what changed is printed."""
    if output.is_table and terminal.is_terminal():
        screen = terminal.Screen()
        return lambda found: screen.draw(_rows(found, output)[output.headless :])
    told: dict[str, Finding] = {}

    def show(found: Sequence[Finding]) -> None:
        changed = [one for one in found if told.get(one.id) != one]
        _print(changed, output, headless=bool(told))
        told.clear()
        told.update({one.id: one for one in found})

    return show


def _print(found: Sequence[Finding], output: Format, *, headless: bool = False) -> None:
    found = list(in_order(found, output.order, lambda one: one))
    if not output.is_table:
        print_objects(found, output, lambda one: f"finding/{one.id}", headless=headless)
    elif found:
        for text in terminal.lines(_rows(found, output), headless=headless or output.headless):
            click.echo(text)


def _rows(found: Sequence[Finding], output: Format) -> list[Row]:
    now, wide = time.time(), output.name == "wide"
    header = tuple(Cell(title, Tone.FAINT) for title in (_WIDE if wide else _NARROW))
    # In another order they do not stand beneath their cause.
    ids = set() if output.order else {one.id for one in found}
    rows = [header, *(_row(one, now, wide=wide, below=one.above in ids) for one in found)]
    if wide or terminal.fits(rows):
        return rows
    return [row for whole in rows for row in _stacked(whole)]


def _stacked(row: Row) -> list[Row]:
    """Put detector and culprit of a row beneath the rest of it: the object comes last."""
    name, severity, state, detector, where, count, last, who = row
    upper = (name, severity, state, count, last, where)
    if name.text == _NARROW[0]:
        return [upper]
    return [upper, (Cell(f"    {detector.text}: {who.text}"),)]


def _row(one: Finding, now: float, *, wide: bool, below: bool) -> Row:
    """`below`: the row stands beneath that of its cause, or of the whole that it is part of."""
    who = ", ".join(actor.label for actor in one.actors) or "not known"
    cells = [
        Cell(one.id),
        Cell(one.severity, Tone.MILD if one.is_ending(now) else _TONES[one.severity]),
        Cell("ending" if one.is_ending(now) else one.state),
        Cell(f"{'└ ' if below else ''}{one.detector}"),
        Cell(printable(one.about)),
        Cell(str(one.count)),
        Cell(_shown_age(_age(one.last_seen, now))),
    ]
    if not wide:
        return (*cells, Cell(printable(who)))
    fields = ", ".join(to_field_path(from_pointer(path)) for path in one.paths)
    first = Cell(_shown_age(_age(one.first_seen, now)))
    return (
        *cells,
        first,
        Cell(printable(fields)),
        Cell(printable(who)),
        Cell(printable(one.message)),
    )


def _age(text: str, now: float) -> float:
    """Return how many seconds ago a time was; 0 for one that cannot be read."""
    at = parse_time(text)
    return max(0.0, now - at.timestamp()) if at is not None else 0.0


def _shown_age(seconds: float) -> str:
    """`90s`, `5m`, `3h` or `2d`: as kubectl shows ages, a unit begins at two of it."""
    for unit, name in _UNITS:
        if seconds >= _SHOWN_UNITS * unit:
            return f"{int(seconds // unit)}{name}"
    return f"{int(seconds)}s"


_HEADER: Final = ("CONTROLLER", "MANAGER", "KIND", *(one.upper() for one in HOW))
_WRONG: Final = ("early", "never", "backwards")


class ControllersAnswer(msgspec.Struct, frozen=True):
    """What is read of the answer to /api/controllers."""

    controllers: tuple[WriterHonesty, ...]
    judged: bool = True


async def _show_controllers(
    choice: "ServerChoice", kubeconfig: str | None, context: str | None, output: Format
) -> None:
    """Print a row for each controller, those who are wrong most often first."""
    from webhook.cli.asking_server import server_of  # noqa: PLC0415

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
        rows = [tuple(Cell(title, Tone.FAINT) for title in _HEADER), *map(_controller_row, found)]
        for text in terminal.lines(rows, headless=output.headless):
            click.echo(text)


def _controller_row(one: WriterHonesty) -> Row:
    return (
        Cell(printable(one.user)),
        Cell(printable(one.field_manager)),
        Cell(printable(one.example.resource_name)),
        *(_controller_count(one, how) for how in HOW),
    )


def _controller_count(one: WriterHonesty, how: str) -> Cell:
    """`12 (40%)`: of the times that the number was raised, or was to be."""
    number: int = getattr(one, how)
    of = one.raised + one.never
    if how == "raised" or not number:
        return Cell(str(number))
    tone = Tone.MILD if how in _WRONG else Tone.FAINT
    return Cell(f"{number} ({number / of:.0%})" if of else str(number), tone)
