"""`genguard scan`: one page about a cluster, before anything is installed in it."""

import asyncio
import re
import shlex
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from genguard.admission.matching import Registration, read_configurations, read_policies
from genguard.converge.creation import Ages, as_people_read, built_with, find_strippers
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity, labels_of
from genguard.detection.fix import with_fix
from genguard.linting.check import Level, LintFinding
from genguard.linting.checks import CHECKS
from genguard.linting.hook import Hook, read_hooks
from genguard.linting.lint import lint
from genguard.objects.served import Served, by_name
from genguard.objects.shown import few, listed, printable
from genguard.status.drawing import blocking_reasons, object_name, shorten
from genguard.status.targets import NAMESPACE_KINDS, WatchTarget
from genguard.status.view import Health, StatusView
from genguard.versions import SENT_TO_NO_WEBHOOK
from webhook.cli.errors import ExitCode, carry_out, told_unread, why_it_ended
from webhook.cli.object_watch import ObjectWatch
from webhook.cli.options import Access, asks_cluster, in_namespaces, timeout, verb
from webhook.cli.output import CHECKED, print_checked, tell, with_margin
from webhook.cli.watch import fights
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.tracing import try_samples

_REGISTERED: Final = (*SENT_TO_NO_WEBHOOK, "customresourcedefinitions.apiextensions.k8s.io")
_MOST_ROWS: Final = 25
_MOST_NAMED: Final = 3
_TICK: Final = 1.0
_PATIENCE_SECONDS: Final = 90.0
_LINTED: Final = {Level.ERROR: Severity.WARNING, Level.WARNING: Severity.INFO}
"""What a check finds may do harm; what else is found does it now."""
_CURE: Final = (
    "for good, its owner lets it patch only its own fields, "
    "or builds it with the API of the cluster"
)
_FLAGS: Final = "{}"
"""Stands for the flags that name the cluster. Names of objects may have braces, too."""
_WHY: Final = f"genguard lint{_FLAGS} says why it matters"
_MEND: Final = "start it again. Until then let such writes pass without it"
_IGNORED: Final = (
    "kubectl patch {} {} --type=strategic -p "
    """'{{"webhooks":[{{"name":"{}","failurePolicy":"Ignore"}}]}}'"""
)
_CHECKS: Final = {check.id for check in CHECKS}
_FAILS: Final = re.compile('failed calling webhook "([^"]+)"')
"""apiserver pkg/util/webhook/errors.go:ErrCallingWebhook."""
T = TypeVar("T")


class ScanLine(msgspec.Struct, frozen=True, tag="scan", tag_field="type"):
    """One line of `genguard scan -o json`.

    found   field-stripped, webhook-fails, stuck, a detector of fights, or a check of lint
    about   the object, the kinds, or the webhook or definition
    actors  who causes it, the likeliest first; none where that is not known
    next    what to do
    command  a line for a shell that does it; "" where there is none
    """

    found: str
    severity: Severity
    about: str
    actors: tuple[Actor, ...]
    paths: tuple[str, ...]
    message: str
    next: str
    command: str = ""


@verb()
@in_namespaces
@asks_cluster
@timeout("60s")
@CHECKED
def scan(*, access: Access, namespace: str, seconds: float, output: str) -> None:
    """Tell in a minute who strips fields, who fights, and what is stuck. It stores nothing."""
    found: list[ScanLine] = []
    try:
        carry_out(_scan(access, namespace, seconds, found))
    except Exception as error:
        code, message = why_it_ended(error)
        if code is not ExitCode.FAILED:
            raise
        tell(f"Error: {message}")
        sys.exit(ExitCode.USAGE)
    lines = found if output == "json" else page(found)
    print_checked(lines, row, output, Severity, lambda line: line.severity)
    sys.exit(ExitCode.FAILED if found else ExitCode.DONE)


async def _scan(access: Access, namespace: str, seconds: float, found: list[ScanLine]) -> None:
    flags = {"--kubeconfig": access.kubeconfig, "--context": access.context}
    given = "".join(f" {flag} {shlex.quote(value)}" for flag, value in flags.items() if value)
    async with access.connected() as rest, asyncio.timeout(seconds + _PATIENCE_SECONDS):
        work = _Scan(rest, await discover(rest), namespace, seconds, {})
        tell(f"scanning {rest.url}; every write is a dry run")
        steps = await asyncio.gather(
            work.of_webhooks(access.namespace(namespace or None)),
            work.read("all that changes", work.of_fights()),
            work.of_stuck(),
        )
    # Within one severity: what is stripped, who fights, what is stuck, and what may do harm.
    lines = sorted(
        chain(*filter(None, steps)), key=lambda line: (-line.severity.rank, line.found in _CHECKS)
    )
    found += [with_flags(line, given) for line in lines]
    if work.refused:
        tell(f"this is not all: {told_unread(work.refused)}")
    if not found and None in steps:
        raise next(iter(work.refused.values()))


class _Scan(NamedTuple):
    """What a scan asks, and what it may not read."""

    rest: Rest
    kinds: Sequence[Served]
    namespace: str
    seconds: float
    refused: dict[str, RefusedError]

    def served(self, names: Iterable[str]) -> list[Served]:
        first = by_name(self.kinds)
        return [first[name] for name in names if name in first]

    async def read(self, what: str, reading: Awaitable[T]) -> T | None:
        """Await an answer; where something may not be read, remember that and go on without it."""
        try:
            return await reading
        except RefusedError as error:
            self.refused[what] = error
            return None

    async def of_webhooks(self, own: str) -> list[ScanLine]:
        """Send complete objects through what is registered, and check it."""
        documents: list[Any] = []
        for kind in self.served(_REGISTERED):
            listing = self.rest.list_all(kind.path(""), kind=kind.kind)
            documents += await self.read(str(kind), listing) or ()
        tell(f"read {len(documents)} webhook configurations, policies and definitions")
        registered = (*read_configurations(documents), *read_policies(documents))
        failed: dict[str, list[str]] = {}
        # Without the configurations nobody knows who is called.
        kinds = () if _REGISTERED[0] in self.refused else self.kinds
        tried = await try_samples(self.rest, kinds, registered, own, failed)
        count = len({sample.of for sample, _ in tried})
        tell(f"created {len(tried)} objects of {count} kinds as dry runs")
        strippers = find_strippers(tried, registered)
        found = [of_stripper(who, fields, registered) for who, fields in strippers.items() if who]
        for why, what in failed.items():
            tell(f"no dry run of {few(what)}: {why}")
            for name in _FAILS.findall(why)[:1]:
                hooks = [hook for hook in read_hooks(documents) if hook.body.get("name") == name]
                found.append(of_failure(hooks, name, few(what), why))
        checked = lint(documents, at=datetime.now(UTC), live=True)
        return found + [of_check(finding) for finding in checked if finding.severity in _LINTED]

    async def of_fights(self) -> list[ScanLine]:
        """Watch every kind that changes. Raises RefusedError where none may be read."""
        async for detection in fights(self.rest, self.kinds, None, self.namespace, self.seconds):
            last = detection
        histories = last.history.snapshot()
        return [
            of_fight(with_fix(finding, histories=histories))
            for finding in last.findings()
            if not finding.above and finding.count > 1
        ]

    async def of_stuck(self) -> list[ScanLine]:
        """Read the main kinds at the beginning and the end: what is not done at both is stuck."""
        main_kinds = self.served(NAMESPACE_KINDS)
        for kind in main_kinds:
            listing = self.rest.try_list(kind.path(self.namespace), kind=kind.kind)
            await self.read(str(kind), listing)
        targets = [
            WatchTarget(kind, self.namespace)
            for kind in main_kinds
            if str(kind) not in self.refused
        ]
        async with ObjectWatch(self.rest, self.kinds, targets, tell) as objects:
            first = await _undone(objects)
            tell(f"not done now: {len(first)}; looked at again at the end")
            await asyncio.sleep(self.seconds)
            last = await _undone(objects)
        return [of_stuck(view) for uid, view in last.items() if uid in first]


async def _undone(objects: ObjectWatch) -> dict[str, StatusView]:
    while (snapshot := await objects.next_snapshot(_TICK)) is None:
        pass
    views = (root.assessment.view for root in snapshot.roots)
    return {
        view.uid: view for view in views if not (view.finished or (view.ready and view.settled))
    }


def of_stripper(
    who: Sequence[str],
    fields: Mapping[tuple[Served, str], Ages],
    registered: Sequence[Registration] = (),
) -> ScanLine:
    """Tell which fields a webhook, or one of several, takes away, and how old its API is."""
    about = ", ".join(dict.fromkeys(str(of) for of, _ in fields))
    # The oldest first: it is what most people use, and shows best how old an API is.
    by_age = sorted(fields, key=lambda field: (fields[field][0], len(field[1])))
    paths = tuple(dict.fromkeys(at for _, at in by_age))
    names = listed([*map(as_people_read, paths)], _MOST_NAMED)
    text = f"removes {names}{built_with(fields.values())}"
    severity = Severity.CRITICAL if len(who) == 1 else Severity.WARNING
    line = ScanLine("field-stripped", severity, about, _actors(who), paths, text, _CURE)
    if len(who) > 1:
        return line
    of = by_age[0][0]
    found = Finding(
        id="",
        detector=line.found,
        severity=severity,
        state="open",
        object=FoundObject(of.group, of.version, of.resource, "", "", ""),
        subresource="",
        paths=paths,
        actors=line.actors,
        count=1,
        first_seen="",
        last_seen="",
        message=text,
        evidence=(),
    )
    return _with_step(line, with_fix(found, registered))


def of_failure(hooks: Sequence[Hook], name: str, about: str, why: str) -> ScanLine:
    """Tell that creations are refused, since a webhook does not answer."""
    actors = _actors([hook.name for hook in hooks] or [name])
    line = ScanLine("webhook-fails", Severity.CRITICAL, about, actors, (), why, _MEND)
    if len(hooks) != 1:
        return line
    kind, configuration = hooks[0].kind.lower(), shlex.quote(hooks[0].configuration)
    return replace(line, command=_IGNORED.format(kind, configuration, name))


def _with_step(line: ScanLine, found: Finding) -> ScanLine:
    """Return a line with the smallest step that ends what was found, before what it says."""
    for step in found.fix[:1]:
        return replace(line, next=f"{step.title}; {line.next}", command=step.command)
    return line


def _actors(who: Sequence[str]) -> tuple[Actor, ...]:
    how = Confidence.CERTAIN if len(who) == 1 else Confidence.LIKELY
    return tuple(Actor("webhook" if "/" in name else "policy", name, "", how) for name in who)


def of_fight(finding: Finding) -> ScanLine:
    """Tell who does not let an object rest, and the smallest step that ends it."""
    where = finding.subject
    within = f" -n {where.namespace}" if where.namespace else ""
    step = f"genguard blame {where.resource_name}/{where.name}{within}{_FLAGS} says who writes it"
    about = finding.about, finding.actors, finding.paths, finding.message
    return _with_step(ScanLine(finding.detector, finding.severity, *about, step), finding)


def with_flags(line: ScanLine, flags: str) -> ScanLine:
    """Return a line whose commands are for the cluster that these flags name."""
    command = line.command.replace("kubectl ", f"kubectl{flags} ", 1)  # it has the same flags
    return replace(line, next=line.next.replace(_FLAGS, flags), command=command)


def of_stuck(view: StatusView) -> ScanLine:
    """Tell why an object is not done."""
    name = f"{object_name(view)} -n {view.namespace}"
    reasons = blocking_reasons(view) or view.reasons
    severity = Severity.WARNING if view.health is Health.RED else Severity.INFO
    paths = tuple(dict.fromkeys(reason.path for reason in reasons))
    why = shorten(reasons) if reasons else "it is not done"
    return ScanLine("stuck", severity, name, (), paths, why, f"genguard status {name}{_FLAGS}")


def of_check(finding: LintFinding) -> ScanLine:
    """Tell what is wrong in a registration or a definition."""
    actors, severity = _actors([finding.webhook] * bool(finding.webhook)), _LINTED[finding.severity]
    about = finding.subject, actors, (finding.field,), finding.message
    return ScanLine(finding.id, severity, *about, _WHY)


def page(found: Iterable[ScanLine]) -> list[ScanLine]:
    """Return lines for people: one for a check, and for more than three that are alike."""
    alike: dict[tuple[Any, ...], list[ScanLine]] = {}
    for line in found:
        who = () if line.found in _CHECKS else line.actors
        alike.setdefault((line.found, line.severity, frozenset(who)), []).append(line)
    shown = []
    for (what, *_), same in alike.items():
        names = few([*dict.fromkeys(line.about for line in same)])
        is_few = len(same) <= (1 if what in _CHECKS else _MOST_NAMED)
        shown += same if is_few else [replace(same[0], about=f"{names} ({len(same)})")]
    if len(shown) > _MOST_ROWS:
        tell(f"{len(shown) - _MOST_ROWS} lines are left out: genguard scan -o json has them")
    return shown[:_MOST_ROWS]


def row(line: ScanLine) -> str:
    """Return a line for people."""
    who = "" if line.found in _CHECKS else ", ".join(labels_of(line.actors)[:_MOST_NAMED])
    text = (
        f"{line.found}: {who}{': ' if who else ''}{line.about}: {line.message}. Next: {line.next}"
    )
    shown = with_margin(printable(f"{line.severity:8} "), printable(text))
    # It is copied as it is: it is never wrapped.
    return f"{shown}\n{printable(line.command)}" if line.command else shown
