"""`genguard findings`: what a running server has found, and who causes it."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from genguard.detection.causes import beneath_causes
from genguard.detection.finding import Finding, Severity, labels_of
from genguard.detection.questions import FINDINGS
from genguard.detection.questions.numbers import HOW, Controllers, GenerationReporting
from genguard.objects.fields import from_pointer, to_field_path
from genguard.objects.metadata import parse_time
from genguard.objects.selectors import Requirement, parse_label_selector
from genguard.objects.served import NO_KIND, UnknownTargetError, find, split_target
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone
from webhook.cli.errors import ExitCode, why_it_ended
from webhook.cli.options import Access, asks_server, finding_id, in_namespaces, is_finding, verb
from webhook.cli.output import Again, Format, Listing, lists, tell
from webhook.server.flags import Parsed, duration

if TYPE_CHECKING:
    from webhook.cli.asking_server import Server
    from webhook.cluster.rest import Rest

_AGAIN_SECONDS: Final = 2.0
_LABELS: Final = ("detector", "finding", "group", "name", "namespace", "resource", "severity")
"""The labels that -l knows. All but the last are labels of the alert, in Alertmanager too."""
_OPEN: Final = "open findings"
_STATES: Final = ("open", "quiet", "resolved", "all")
_MILD: Final = ("ending", "repaired")
_NARROW: Final = ("ID", "SEVERITY", "STATE", "DETECTOR", "OBJECT", "COUNT", "LAST", "CULPRIT")
_WIDE: Final = (*_NARROW[:-1], "FIRST", "FIELDS", "CULPRIT", "MESSAGE")
_SPARE: Final = ("FIELDS", "FIRST", "LAST", "COUNT", "STATE", "SEVERITY", "DETECTOR")
_TONES: Final = {
    Severity.CRITICAL: Tone.BAD,
    Severity.WARNING: Tone.MILD,
    Severity.INFO: Tone.FAINT,
}
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"))
_SHOWN_UNITS: Final = 2
_FINDING: Final = "finding"


class FindingFilter(NamedTuple):
    """The flags that choose findings; an empty value is no filter.

    severity  the least one
    selector  the labels of -l
    seconds   how long ago the latest signal was at most; None: at any time
    """

    namespace: str
    state: str
    severity: str | None
    detector: str | None
    selector: tuple[Requirement, ...]
    seconds: float | None
    kind: str
    name: str

    @property
    def query(self) -> dict[str, str]:
        """What the server filters by itself."""
        query = {"namespace": self.namespace, "state": self.state, "kind": self.kind}
        return {**query, "detector": self.detector or ""}

    @property
    def ids(self) -> list[str]:
        """The findings that are asked for by their IDs."""
        asked = (
            names for key, operator, names in self.selector if (key, operator) == (_FINDING, "In")
        )
        return [name for names in asked for name in names]

    def select(self, findings: Sequence[Finding], now: float) -> list[Finding]:
        """Return those that are meant; one that another causes stands directly beneath it."""
        return beneath_causes(finding for finding in findings if self._is_meant(finding, now))

    def _is_meant(self, finding: Finding, now: float) -> bool:
        least = Severity(self.severity or Severity.INFO)
        return (
            finding.severity.rank >= least.rank
            and self.name in ("", finding.object.name)
            and all(
                wanted.fits({**finding.labels, "severity": finding.severity.value})
                for wanted in self.selector
            )
            and (self.seconds is None or _age(finding.last_seen, now) <= self.seconds)
        )

    def __str__(self) -> str:
        """`open findings in namespace shop`."""
        state = "" if self.state == "all" else f"{self.state} "
        where = f" in namespace {self.namespace}" if self.namespace else ""
        others = (self.severity, self.detector, self.selector, self.kind, self.seconds)
        more = " that match the other flags" if any(others) else ""
        return f"{state}findings{where}{more}"


def _selector(text: str) -> tuple[Requirement, ...]:
    """Read -l; a key that no finding has is refused, for it would choose none, or all."""
    found = tuple(parse_label_selector(text))
    for requirement in found:
        if requirement.key not in _LABELS:
            raise ValueError(
                f"a finding has no label {requirement.key!r}, and the labels of its object are not "
                f"known; it has {', '.join(_LABELS)}"
            )
    return found


@verb()
@in_namespaces
@click.option("--state", type=click.Choice(_STATES), default=_STATES[0], show_default=True)
@click.option("--severity", type=click.Choice([severity.value for severity in Severity]))
@click.option("--detector", type=click.Choice(sorted(FINDINGS)), metavar="DETECTOR")
@click.option("--since", "seconds", metavar="DURATION", type=duration(24 * 365))
@click.option("-l", "--selector", metavar="LABELS", default="", type=Parsed(_selector))
@click.option("--controllers", is_flag=True)
@click.option("-w", "--watch", is_flag=True)
@lists
@asks_server
@click.argument("target", metavar="[KIND|KIND/NAME|ID]", default="")
def findings(
    *, target: str, controllers: bool, watch: bool, output: Format, access: Access, **filters: Any
) -> None:
    """Tell what a running genguard has found, and who causes it."""
    kind, name = _meant(target)
    if kind == _FINDING:  # as -o name prints it
        kind, filters["selector"] = "", (*filters["selector"], Requirement(kind, "In", (name,)))
        name = ""
    wanted = FindingFilter(**filters, kind=kind, name=name)
    if controllers and (watch or target or str(wanted) != _OPEN):
        raise click.UsageError("--controllers takes -o, --sort-by and flags of the server alone")
    if controllers:
        asyncio.run(_show_controllers(access, output))
    else:
        asyncio.run((_watch if watch else _once)(wanted, access, output))


def _meant(target: str) -> tuple[str, str]:
    """Read KIND, KIND/NAME, finding/ID or ID."""
    if is_finding(target):
        return _FINDING, finding_id(target)
    try:
        return split_target(target) if "/" in target else (target, "")
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error


async def _once(wanted: FindingFilter, access: Access, output: Format) -> None:
    async with access.reached() as server:
        found, note = await _ask(server, wanted)
        if not found:
            for name in wanted.ids:
                await server.finding(name)  # says that it is not there
            if note.startswith(NO_KIND):
                raise UnknownTargetError(note)
            if wanted.name and not note and server.rest:
                await _check_name(server.rest, wanted)
    if not found:
        tell(note or f"No {wanted}.")
    _listing(output).show(found)


async def _check_name(rest: "Rest", wanted: FindingFilter) -> None:
    """Raise UnknownTargetError where no object has this name; a right that is missing is passed."""
    from webhook.cluster.discovery import absent, discover  # noqa: PLC0415
    from webhook.cluster.rest import RefusedError  # noqa: PLC0415

    with suppress(RefusedError):
        kind = find(wanted.kind, await discover(rest))
        namespace = wanted.namespace if kind.namespaced else ""
        named = {"fieldSelector": f"metadata.name={wanted.name}"}
        if not await rest.list_all(kind.path(namespace), named, only_metadata=True):
            raise await absent(rest, kind, namespace, wanted.name)


async def _watch(wanted: FindingFilter, access: Access, output: Format) -> None:
    """Show what changed in findings; a server that is lost is looked for again, for ever."""
    again, listing = Again(), _listing(output)
    was_reached, told = False, ""
    while True:
        try:
            async with access.reached() as server:
                while True:
                    again.show(listing, (await _ask(server, wanted))[0], lambda finding: finding.id)
                    was_reached, told = True, ""
                    await asyncio.sleep(_AGAIN_SECONDS)
        except Exception as error:
            code, reason = why_it_ended(error)
            if code is ExitCode.DONE or not was_reached:
                raise
            if reason != told:
                tell(f"trying again: {reason}")
                told = reason
        await asyncio.sleep(_AGAIN_SECONDS)


async def _ask(server: "Server", wanted: FindingFilter) -> tuple[list[Finding], str]:
    """Return what is found, and why nothing can be found of what is asked about."""
    answer = await server.page(wanted.query)
    return wanted.select(answer.findings, time.time()), answer.note


def _listing(output: Format) -> Listing[Finding]:
    return Listing(
        output,
        lambda found: _rows(found, output),
        lambda finding: f"finding/{finding.id}",
        lambda finding: finding,
        spare=_SPARE,
    )


def _rows(found: Sequence[Finding], output: Format) -> list[Row]:
    now, wide = time.time(), output.name == "wide"
    header = tuple(Cell(title, Tone.FAINT) for title in (_WIDE if wide else _NARROW))
    # In another order they do not stand beneath their cause.
    ids = set() if output.order else {finding.id for finding in found}
    return [
        header,
        *(_row(finding, now, wide=wide, below=finding.above in ids) for finding in found),
    ]


def _row(finding: Finding, now: float, *, wide: bool, below: bool) -> Row:
    """`below`: the row stands beneath that of its cause, or of the group that it is part of."""
    state = (
        "ending" if finding.is_ending(now) else "repaired" if finding.restored else finding.state
    )
    first, last = (_shown_age(_age(at, now)) for at in (finding.first_seen, finding.last_seen))
    fields = ", ".join(to_field_path(from_pointer(path)) for path in finding.paths)
    who = ", ".join(labels_of(finding.actors)) or "not known"
    texts = [f"{'└ ' if below else ''}{finding.detector}", finding.about, str(finding.count), last]
    texts += [first, fields, who, finding.message] if wide else [who]
    return (
        Cell(finding.id),
        Cell(finding.severity, Tone.MILD if state in _MILD else _TONES[finding.severity]),
        Cell(state),
        *(Cell(printable(text)) for text in texts),
    )


def _age(text: str, now: float) -> float:
    """Return how many seconds ago a time was; 0 for one that cannot be read."""
    at = parse_time(text)
    return max(0.0, now - at.timestamp()) if at is not None else 0.0


def _shown_age(seconds: float) -> str:
    """`90s`, `5m`, `3h` or `2d`: kubectl, too, takes a larger unit from two of it on."""
    for unit, name in _UNITS:
        if seconds >= _SHOWN_UNITS * unit:
            return f"{int(seconds // unit)}{name}"
    return f"{int(seconds)}s"


_HEADER: Final = ("CONTROLLER", "MANAGER", "KIND", *(how.upper() for how in HOW))
_WRONG: Final = ("early", "never", "backwards")


async def _show_controllers(access: Access, output: Format) -> None:
    """Print a row for each controller, those who are wrong most often first."""
    async with access.reached() as server:
        answer = await server.ask("/api/controllers", {}, Controllers)
    found = answer.controllers if answer else ()
    if answer is not None and not answer.detects:
        tell("This replica examines no writes: ask the one that leads; genguard doctor names it.")
    elif not found:
        tell("No controller has written observedGeneration since the server started.")
    head = tuple(Cell(title, Tone.FAINT) for title in _HEADER)
    Listing(
        output,
        lambda controllers: [head, *map(_controller_row, controllers)],
        lambda controller: controller.user,
        lambda controller: controller,
    ).show(found)


def _controller_row(reporting: GenerationReporting) -> Row:
    return (
        Cell(printable(reporting.user)),
        Cell(printable(reporting.field_manager)),
        Cell(printable(reporting.example.resource_name)),
        *(_controller_count(reporting, how) for how in HOW),
    )


def _controller_count(reporting: GenerationReporting, how: str) -> Cell:
    """`12 (40%)`: the share of the times that the number was raised, or was to be."""
    number: int = getattr(reporting, how)
    of = reporting.raised + reporting.never
    if how == "raised" or not number:
        return Cell(str(number))
    tone = Tone.MILD if how in _WRONG else Tone.FAINT
    return Cell(f"{number} ({number / of:.0%})" if of else str(number), tone)
