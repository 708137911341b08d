"""`genguard scan`: one page about a cluster, before anything is installed in it."""

import asyncio
import sys
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from genguard.admission.matching import read_configurations, read_policies
from genguard.converge.creation import find_strippers
from genguard.detection.finding import Actor, Confidence, Finding, Severity, labels_of
from genguard.detection.since import first_version
from genguard.generation.strategy import parse_version
from genguard.linting.check import Level, LintFinding
from genguard.linting.lint import lint
from genguard.objects.served import Served
from genguard.objects.shown import listed, printable
from genguard.status.drawing import blocking_reasons, object_name, shorten
from genguard.status.targets import NAMESPACE_KINDS, WatchTarget
from genguard.status.view import Health, StatusView
from genguard.versions import SENT_TO_NO_WEBHOOK
from webhook.cli.errors import ExitCode, carry_out, told_unread, why_it_ended
from webhook.cli.following import Following
from webhook.cli.options import OUTPUT, Access, asks_cluster, timeout, verb
from webhook.cli.output import print_checked, tell, with_margin
from webhook.cli.watch import fights
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.tracing import try_samples

_REGISTERED: Final = (*SENT_TO_NO_WEBHOOK, "customresourcedefinitions.apiextensions.k8s.io")
_MOST_ROWS: Final = 40
_MOST_NAMED: Final = 3
_TICK: Final = 1.0
_LINTED: Final = {Level.ERROR: Severity.WARNING, Level.WARNING: Severity.INFO}
"""What a check finds may do harm; what else is found does it now."""
_CURE: Final = (
    "let it patch its own fields alone, or build it with the API of the cluster; "
    "genguard trace KIND/NAME --poke proves it on an object"
)
_CHECK: Final = "genguard lint says why it matters"
T = TypeVar("T")
Refused = dict[str, RefusedError]


class ScanLine(msgspec.Struct, frozen=True, tag="scan", tag_field="type"):
    """One line of `genguard scan -o json`.

    found   field-stripped, the detector of a fight, stuck, or the id of a check of lint
    about   the object, or the kinds
    actors  who causes it, the likeliest first; none where that is not known
    next    what to do
    """

    found: str
    severity: Severity
    about: str
    actors: tuple[Actor, ...]
    paths: tuple[str, ...]
    message: str
    next: str


@verb()
@asks_cluster
@timeout("60s")
@OUTPUT
def scan(*, access: Access, seconds: float, output: str) -> None:
    """Tell in a minute who strips fields, who fights, and what is stuck. It stores nothing."""
    found: list[ScanLine] = []
    try:
        carry_out(_scan(access, seconds, found))
    except Exception as error:
        code, message = why_it_ended(error)
        if code is not ExitCode.FAILED:
            raise
        tell(f"Error: {message}")
        sys.exit(ExitCode.USAGE)
    shown = found if output == "json" else found[:_MOST_ROWS]
    print_checked(shown, row, output, Severity, lambda one: one.severity)
    if len(shown) < len(found):
        tell(f"and {len(found) - len(shown)} more: genguard scan -o json")
    sys.exit(ExitCode.FAILED if found else ExitCode.DONE)


async def _scan(access: Access, seconds: float, found: list[ScanLine]) -> None:
    own = access.namespace(None)
    refused: Refused = {}
    async with access.connected() as rest:
        kinds = await discover(rest)
        first = {str(one): one for one in reversed(kinds)}
        registrations = [first[name] for name in _REGISTERED if name in first]
        judged = [first[name] for name in NAMESPACE_KINDS if name in first]
        tell(f"scanning {rest.url}; every write is a dry run")
        steps = await asyncio.gather(
            _of_webhooks(rest, kinds, registrations, own, refused=refused),
            _if_readable(_of_fights(rest, kinds, seconds), "all that changes", refused),
            _of_stuck(rest, kinds, judged, seconds, refused=refused),
        )
    # Of one severity: what is stripped, who fights, what is stuck, and what may do harm.
    lines = chain(*filter(None, steps))
    found += sorted(lines, key=lambda one: (-one.severity.rank, one.next == _CHECK))
    if refused:
        tell(f"this is not all: {told_unread(refused)}")
    if not found and None in steps:
        raise next(iter(refused.values()))


async def _of_webhooks(
    rest: Rest,
    kinds: Sequence[Served],
    registrations: Sequence[Served],
    own: str,
    *,
    refused: Refused,
) -> list[ScanLine]:
    """Send complete objects through what is registered, and check it."""
    documents: list[Any] = []
    for one in registrations:
        listing = rest.list_all(one.path(""), kind=one.kind)
        documents += await _if_readable(listing, str(one), refused) or ()
    tell(f"checked {len(documents)} webhook configurations, policies and definitions")
    registered = (*read_configurations(documents), *read_policies(documents))
    tried = []
    if _REGISTERED[0] not in refused:  # or else nobody knows who is called
        tried = await try_samples(rest, kinds, registered, tell, own)
    tell(f"created {len(tried)} objects of {len({one.of for one, _ in tried})} kinds as dry runs")
    checked = lint(documents, at=datetime.now(UTC), live=True)
    strippers = find_strippers(tried, registered)
    found = [of_stripper(who, fields) for who, fields in strippers.items() if who]
    return found + [of_check(one) for one in checked if one.severity in _LINTED]


async def _if_readable(reading: Awaitable[T], what: str, refused: Refused) -> T | None:
    """Await an answer; remember it where something may not be read, and go on without."""
    try:
        return await reading
    except RefusedError as error:
        refused[what] = error
        return None


async def _of_fights(rest: Rest, kinds: Sequence[Served], seconds: float) -> list[ScanLine]:
    """Watch every kind that changes. Raises RefusedError where none may be read."""
    async for detection in fights(rest, kinds, None, "", seconds):
        last = detection
    return list(map(of_fight, last.findings()))


async def _of_stuck(
    rest: Rest,
    kinds: Sequence[Served],
    judged: Sequence[Served],
    seconds: float,
    *,
    refused: Refused,
) -> list[ScanLine]:
    """Judge the main kinds at the beginning and at the end: what is not done at both is stuck."""
    for one in judged:
        await _if_readable(rest.try_list(one.path(""), kind=one.kind), str(one), refused)
    targets = [WatchTarget(one, "") for one in judged if str(one) not in refused]
    async with Following(rest, kinds, targets, tell) as objects:
        first = await _undone(objects)
        tell(f"{len(first)} objects are not ready and settled, and are judged again at the end")
        await asyncio.sleep(seconds)
        last = await _undone(objects)
    return [of_stuck(view) for uid, view in last.items() if uid in first]


async def _undone(objects: Following) -> dict[str, StatusView]:
    while (snapshot := await objects.next_snapshot(_TICK)) is None:
        pass
    views = (root.assessment.view for root in snapshot.roots)
    return {one.uid: one for one in views if not (one.finished or (one.ready and one.settled))}


def of_stripper(who: Sequence[str], fields: Mapping[tuple[Served, str], str]) -> ScanLine:
    """Tell which fields a webhook, or one of several, takes away, and of which age its API is."""
    text = f"removes {listed(list(dict.fromkeys(fields.values())), _MOST_NAMED)}"
    versions = filter(None, (first_version(*of.of, at) for of, at in fields))
    if since := min(versions, key=parse_version, default=""):
        major, minor = parse_version(since)
        text += f"; it is built with the API of Kubernetes {major}.{minor - 1} or older"
    about = ", ".join(dict.fromkeys(str(of) for of, _ in fields))
    paths = tuple(dict.fromkeys(at for _, at in fields))
    how = Confidence.CERTAIN if len(who) == 1 else Confidence.LIKELY
    severity = Severity.CRITICAL if len(who) == 1 else Severity.WARNING
    actors = tuple(Actor("webhook" if "/" in one else "policy", one, "", how) for one in who)
    return ScanLine("field-stripped", severity, about, actors, paths, text, _CURE)


def of_fight(one: Finding) -> ScanLine:
    """Tell who does not let an object rest."""
    where = one.subject
    step = f"genguard blame {where.resource_name}/{where.name}"
    step += f" -n {where.namespace}" if where.namespace else ""
    return ScanLine(one.detector, one.severity, one.about, one.actors, one.paths, one.message, step)


def of_stuck(view: StatusView) -> ScanLine:
    """Tell why an object is not done."""
    name = f"{object_name(view)} -n {view.namespace}"
    reasons = blocking_reasons(view) or view.reasons
    severity = Severity.WARNING if view.health is Health.RED else Severity.INFO
    paths = tuple(dict.fromkeys(one.path for one in reasons))
    why = shorten(reasons) if reasons else "it is not done"
    return ScanLine("stuck", severity, name, (), paths, why, f"genguard status {name}")


def of_check(one: LintFinding) -> ScanLine:
    """Tell what is wrong in a registration or a definition."""
    actors = (Actor("webhook", one.webhook, "", Confidence.CERTAIN),) if one.webhook else ()
    about, severity = f"{one.definition} {one.field}".strip(), _LINTED[one.severity]
    return ScanLine(one.id, severity, about, actors, (one.field,), one.message, _CHECK)


def row(one: ScanLine) -> str:
    """Return a line for people."""
    who = f"{' or '.join(labels_of(one.actors)[:_MOST_NAMED])}: " if one.actors else ""
    lead = printable(f"{one.severity:8} {one.found:24} ")
    return with_margin(lead, printable(f"{who}{one.about}: {one.message}. Next: {one.next}"))
