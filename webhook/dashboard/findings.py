"""Findings as a page: the worst and latest first, filtered, so many at a time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from webhook.dashboard.scene import MissingError, Scene, Seen, known_only, number, one_of
from webhook.detection.detectors import ALL
from webhook.detection.finding import Finding, Severity
from webhook.detection.ledger import MOST_FINDINGS

STATES: Final = ("open", "quiet", "resolved", "all")
"""`open` asks for all that are not resolved, `quiet` for those of them without a new sign."""
DETECTORS: Final = tuple(sorted(one.name for one in ALL))
SEVERITIES: Final = tuple(reversed(Severity))
_ROWS: Final = 100
_PARAMETERS: Final = ("q", "severity", "namespace", "detector", "state", "page", "limit")
_WORST: Final = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Asked(msgspec.Struct, frozen=True):
    """Which findings; an empty value is no filter. `q` is looked for in all that is shown."""

    q: str
    severity: str
    namespace: str
    detector: str
    state: str
    page: int
    limit: int

    @property
    def filters(self) -> dict[str, str]:
        """What a link to another page of the same findings says."""
        names = ("q", "severity", "namespace", "detector", "state")
        return {name: getattr(self, name) for name in names}


class FindingsPage(msgspec.Struct, frozen=True):
    """`total` matched; `open`, by severity, are all that are open, whatever was asked for."""

    findings: tuple[Finding, ...]
    total: int
    open: dict[str, int]
    known: int
    page: int
    pages: int


def parse(query: Mapping[str, str], *, state: str, limit: int) -> Asked:
    """Check the parameters; `state` and `limit` where they are not given.

    Raises BadQueryError.
    """
    known_only(query, _PARAMETERS)
    return Asked(
        q=query.get("q", "").strip(),
        severity=one_of(query, "severity", SEVERITIES),
        namespace=query.get("namespace", "").strip(),
        detector=one_of(query, "detector", DETECTORS),
        state=one_of(query, "state", STATES, state),
        page=number(query, "page", 1, MOST_FINDINGS),
        limit=number(query, "limit", limit, MOST_FINDINGS),
    )


def look(findings: Sequence[Finding], asked: Asked) -> FindingsPage:
    """One page. Takes some 20 ms for the most findings there can be: not for the event loop."""
    found = sorted(_matching(findings, asked), key=lambda one: one.last_seen, reverse=True)
    found.sort(key=lambda one: (one.state == "resolved", _WORST[one.severity]))
    pages = max(1, -(-len(found) // asked.limit))
    first = (min(asked.page, pages) - 1) * asked.limit
    is_open = Counter(one.severity for one in findings if one.state != "resolved")
    return FindingsPage(
        findings=tuple(found[first : first + asked.limit]),
        total=len(found),
        open={severity.value: is_open[severity] for severity in SEVERITIES},
        known=len(findings),
        page=min(asked.page, pages),
        pages=pages,
    )


def _matching(findings: Sequence[Finding], asked: Asked) -> Iterator[Finding]:
    words = asked.q.casefold().split()
    for one in findings:
        if (
            _is_in(one, asked.state)
            and asked.severity in ("", one.severity)
            and asked.detector in ("", one.detector)
            and asked.namespace in ("", one.object.namespace)
            and (not words or _has(one, words))
        ):
            yield one


def _is_in(one: Finding, state: str) -> bool:
    return state in ("all", one.state) or (state == "open" and one.state == "quiet")


def _has(one: Finding, words: Sequence[str]) -> bool:
    where = one.object
    text = " ".join(
        (
            *(where.namespace, where.name, where.resource, where.group, where.uid),
            *(one.id, one.detector, one.severity, one.message),
            *one.paths,
            *(f"{actor.name} {actor.field_manager}" for actor in one.actors),
        )
    ).casefold()
    return all(word in text for word in words)


async def open_ones(scene: Scene, query: Mapping[str, str], _: float) -> Seen:
    """For people: those that are open, unless others are asked for, a hundred at a time."""
    return await _seen(scene, parse(query, state="open", limit=_ROWS))


async def every_one(scene: Scene, query: Mapping[str, str], _: float) -> Seen:
    """For programs: all that are not asked to be left out."""
    return await _seen(scene, parse(query, state="all", limit=MOST_FINDINGS))


async def one(scene: Scene, query: Mapping[str, str], _: float) -> Seen:
    """A single one, by its id; raises MissingError."""
    for found in scene.sources.detecting.findings():
        if found.id == query["id"]:
            return Seen(found, {})
    raise MissingError(
        "No finding has this id. It may have been dropped for newer ones, or this server was "
        "restarted, or another replica has it: each has its own."
    )


async def _seen(scene: Scene, asked: Asked) -> Seen:
    known = scene.sources.detecting.findings()
    page = await scene.turns.aside(lambda: look(known, asked))
    choices = {"states": STATES, "detectors": DETECTORS, "severities": SEVERITIES}
    return Seen(page, {"asked": asked, **choices})
