"""One object's status as genguard sees it, beside the answers of kstatus, Argo CD and kubectl."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from genguard.status.evaluate import evaluate
from genguard.status.health_rules import RuleAnswers
from genguard.status.names import NAMES
from genguard.status.view import Health, Past, StatusView
from genguard.status.views.argo import ArgoHealth, argo
from genguard.status.views.kstatus import Kstatus, kstatus
from genguard.status.views.rollout import Rollout, rollout

AskRules = Callable[[Mapping[str, Any]], RuleAnswers | None]
"""Evaluates the rule in CEL for an object's kind; None without one. It may block for seconds."""


def ask_no_rules(_: Mapping[str, Any]) -> None:
    """Where nobody evaluates rules in CEL."""


_DONE: Final = "done"
_UNREADABLE: Final = "unreadable"


class StatusLine(msgspec.Struct, frozen=True, rename="camel"):
    """One line of `genguard status -o json`.

    The fields are an interface: all are always present, in this order; null means not known.
    """

    kind: str
    namespace: str
    name: str
    ready: bool | None
    settled: bool
    health: Health
    progress: float | None
    table_ready: bool | None
    kstatus: Kstatus
    argo: ArgoHealth | None
    rollout: Rollout | None
    reconciled_generation: int | None
    terminating_replicas: int | None
    reasons: tuple[str, ...]
    api_version: str
    group: str
    uid: str
    traffic_ready: bool | None
    application_qualified: bool | None


_OF_VIEW: Final = frozenset(StatusLine.__struct_fields__) & frozenset(
    StatusView.__struct_fields__
) - {"reasons"}


class Assessment(NamedTuple):
    """All answers for one object. None means that the tool has no answer for this kind."""

    document: Mapping[str, Any]
    view: StatusView
    kstatus: Kstatus
    argo: ArgoHealth | None
    rollout: Rollout | None

    @property
    def disagreement(self) -> str | None:
        """What the other tools answer, in one line, where one contradicts another; else None.

        "Not ready" of genguard agrees with waiting, failed and suspended. A tool without an answer
        contradicts nobody.
        """
        answers = {"kstatus": self.kstatus, "Argo CD": self.argo, "kubectl": self.rollout}
        told = {tool: answer for tool, answer in answers.items() if answer is not None}
        outcomes = {NAMES["outcomes"][answer] for answer in told.values()}
        is_done = self.view.ready is True and self.view.settled
        against = outcomes - {_DONE} if is_done else outcomes & {_DONE, _UNREADABLE}
        if len(outcomes) == 1 and not against:
            return None
        return ", ".join(f"{tool} says {answer}" for tool, answer in told.items())

    def to_line(self) -> StatusLine:
        """Return the object of one line of `genguard status -o json`."""
        view = self.view
        own = {name: getattr(view, name) for name in _OF_VIEW}
        return StatusLine(
            **own,
            kstatus=self.kstatus,
            argo=self.argo,
            rollout=self.rollout,
            reasons=tuple(map(str, view.reasons)),
            api_version=f"{view.group}/{view.version}" if view.group else view.version,
        )


def assess(
    document: Mapping[str, Any],
    past: Past | None = None,
    children: Sequence[StatusView] = (),
    dependents: Sequence[StatusView] = (),
    *,
    at: float,
    ask_rules: AskRules = ask_no_rules,
) -> Assessment:
    """Evaluate an object as evaluate() does, and ask the other tools, which see only the object."""
    return Assessment(
        document,
        evaluate(document, past, children, ask_rules(document), dependents=dependents, at=at),
        kstatus(document, at),
        argo(document),
        rollout(document),
    )
