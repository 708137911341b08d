"""The open findings of a server about objects, and who is to blame."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self

import msgspec

from genguard.detection.finding import Actor, Finding, Severity
from genguard.generation.table import load_rows
from genguard.objects.served import Served
from genguard.objects.shown import printable
from genguard.status.assessment import Assessment, StatusLine
from genguard.status.trees import Node
from genguard.status.view import StatusView
from webhook.cli.asking_server import NoServerError, NotInstalledError, ServerChoice, server_beside
from webhook.cli.output import Tell
from webhook.cluster.rest import Rest

MOST_FINDINGS: Final = 1_000
"""Open findings that are asked for, the worst first."""
_UNASKED_SECONDS: Final = 3.0
"""How long a server that nobody named may take."""
_APART_SECONDS: Final = 10.0
_SHOWN: Final = 2


class Culprit(msgspec.Struct, frozen=True, rename="camel"):
    """One open finding about an object, and who causes it; `finding` is its id.

    over  nothing is left of it on this object, and no sign comes any more: it is resolved soon
    """

    finding: str
    detector: str
    severity: Severity
    state: str
    count: int
    actors: tuple[Actor, ...]
    message: str
    over: bool

    def __str__(self) -> str:
        who = ", ".join(one.label for one in self.actors[:_SHOWN]) or "not known who"
        over = "over: " if self.over else ""
        return printable(f"{over}{who}: {self.message}; genguard explain finding/{self.finding}")


class FollowedLine(StatusLine, frozen=True, rename="camel"):
    """One line of `genguard status -o json` of a cluster's object.

    culprits  null: no server could be asked
    """

    culprits: tuple[Culprit, ...] | None = None


def open_findings(number: int) -> str:
    """Say that so many findings are open, and how they are seen."""
    what = "finding is" if number == 1 else "findings are"
    return f"{number} {what} open about what is shown: genguard findings"


class FindingsAnswer(msgspec.Struct, frozen=True):
    """What is read of the answer to /api/findings: `total` findings match."""

    findings: tuple[Finding, ...]
    total: int = 0


class Culprits:
    """The open findings of a server, by object."""

    def __init__(self, findings: Iterable[Finding], kinds: Iterable[Served] = ()) -> None:
        self._known: Final = {one.id: one for one in findings if one.state != "resolved"}
        self._kinds: Final = _kinds_of(kinds)
        self._by_uid: Final[dict[str, dict[str, Finding]]] = {}
        self._by_name: Final[dict[tuple[str, ...], dict[str, Finding]]] = {}
        for one in self._known.values():
            where = one.object
            if where.uid:
                self._by_uid.setdefault(where.uid, {})[one.id] = one
            else:
                place = (where.group, where.resource, where.namespace, where.name)
                self._by_name.setdefault(place, {})[one.id] = one

    def of(self, view: StatusView) -> tuple[Culprit, ...]:
        """Return the findings about one object, the worst first.

        Who causes it is named where it begins: a consequence names its controller.
        """
        found = dict(self._by_uid.get(view.uid, {}))
        for resource in self._kinds.get((view.group, view.kind), ()):
            found |= self._by_name.get((view.group, resource, view.namespace, view.name), {})
        now = time.time()
        over: dict[str, bool] = {}  # by cause, which may go on elsewhere
        for one in found.values():
            name = self._known.get(one.above, one).id
            over[name] = over.get(name, True) and one.is_ending(now)
        causes = sorted((self._known[name] for name in over), key=_severity, reverse=True)
        return tuple(
            Culprit(
                one.id,
                one.detector,
                one.severity,
                one.state,
                one.count,
                one.actors,
                one.message,
                over[one.id],
            )
            for one in causes
        )

    def of_tree(self, root: Node) -> tuple[Culprit, ...]:
        """Return the findings about an object and what it owns, each once."""
        found = (culprit for node in root.walk() for culprit in self.of(node.assessment.view))
        return tuple(dict.fromkeys(found))

    def count_open(self, roots: Iterable[Node]) -> int:
        """Count the findings of severity warning or critical about these trees, each once."""
        about = (one for root in roots for one in self.of_tree(root))
        return len({one.finding for one in about if one.severity is not Severity.INFO})


class CulpritWatch:
    """Asks a server from time to time.

    `needed`: it is said why nothing is known. Otherwise a server that nobody named, and that cannot
    be asked, is left out without a word, for nothing is stuck.
    """

    def __init__(
        self,
        choice: ServerChoice,
        rest: Rest,
        kinds: Iterable[Served],
        namespace: str,
        tell: Tell,
    ) -> None:
        """`namespace` "" is every namespace; `tell` says once why nobody is named."""
        self._choice: Final = choice
        self._rest: Final = rest
        self._kinds: Final = tuple(kinds)
        self._namespace: Final = namespace
        self._tell: Final = tell
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = -_APART_SECONDS
        self._has_told = False
        self.needed = True
        self.known: Culprits | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def look(self) -> None:
        """Begin to ask, unless it was asked a moment ago; `known` changes later."""
        is_idle = self._asking is None or self._asking.done()
        if is_idle and time.monotonic() - self._asked_at >= _APART_SECONDS:
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._ask())

    async def now(self) -> Culprits | None:
        """Ask, and return the answer; None where there is none."""
        self.look()
        if self._asking is not None:
            await self._asking
        return self.known

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(None if self._choice.server else _UNASKED_SECONDS):
                found = await ask_findings(self._choice, self._rest, self._namespace)
        except NotInstalledError as error:
            if self._choice.server:
                self._tell_once(str(error))
        except NoServerError as error:
            self._tell_once(str(error))
        except TimeoutError:
            self._tell_once(f"no answer within {_UNASKED_SECONDS:g} s; give --server URL")
        else:
            self.known = Culprits(found, self._kinds)

    def _tell_once(self, reason: str) -> None:
        if self.needed and not self._has_told:
            self._has_told = True
            self._tell(f"note: who is to blame is not known: {reason}")


async def ask_findings(choice: ServerChoice, rest: Rest, namespace: str) -> tuple[Finding, ...]:
    """Ask for the open findings of a namespace, "" for all. Raises NoServerError."""
    query = {"state": "open", "namespace": namespace, "limit": str(MOST_FINDINGS)}
    async with server_beside(choice, rest) as server:
        found = await server.ask("/api/findings", query, FindingsAnswer)
        return found.findings if found else ()


def is_stuck(root: Node) -> bool:
    """Whether an object is not ready, or not settled, with all that it owns."""
    view = root.assessment.view
    return view.ready is not True or not view.settled


def with_culprits(assessment: Assessment, known: Culprits | None) -> FollowedLine:
    """Return the line of an object with who is to blame."""
    line = msgspec.structs.asdict(assessment.to_line())
    return FollowedLine(**line, culprits=None if known is None else known.of(assessment.view))


def _kinds_of(served: Iterable[Served]) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the resources of each group and kind."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for group, kind, resource in _named(served):
        found.setdefault((group, kind), {})[resource] = None
    return {key: tuple(names) for key, names in found.items()}


def _named(served: Iterable[Served]) -> Iterator[tuple[str, str, str]]:
    yield from ((row.group, row.kind, row.resource) for row in load_rows())
    yield from ((one.group, one.kind, one.resource) for one in served)


def _severity(one: Finding) -> int:
    return list(Severity).index(one.severity)
