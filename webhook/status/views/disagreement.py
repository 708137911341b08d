"""One line that says why the tools disagree about an object."""

from collections.abc import Callable
from typing import Final

from webhook.status.views.argo import ArgoHealth
from webhook.status.views.argo.assess import assess
from webhook.status.views.causes import CAUSES
from webhook.status.views.evidence import Evidence, Outcome, Tool
from webhook.status.views.kstatus import Kstatus
from webhook.status.views.kstatus.compute import compute
from webhook.status.views.reading import Document, TypeMismatchError, kind_of
from webhook.status.views.rollout import Rollout


def disagreement(
    document: Document,
    *,
    ready: bool | None,
    settled: bool,
    kstatus: Kstatus,
    argo: ArgoHealth | None,
    rollout: Rollout | None,
) -> str | None:
    """Why one of genguard, kstatus, Argo CD and kubectl contradicts another; None if none does.

    They are compared by done, waiting, failed, suspended and unreadable; that an object which is
    not ready has failed is no contradiction. A tool without an answer contradicts nobody.
    """
    said = {Tool.KSTATUS: kstatus, Tool.ARGO: argo, Tool.KUBECTL: rollout}
    words = {tool: word for tool, word in said.items() if word is not None}
    it = Evidence(document, done=ready is True and settled, words=words)
    if not any(map(it.differs, Tool)):
        return None
    return _unreadable(it) or _cause(it) or _listed(it)


def _unreadable(it: Evidence) -> str | None:
    """The first field that a tool could not read; None where it read all and knows no answer."""
    for tool, judge in _JUDGES.items():
        if it.outcome(tool) is Outcome.UNREADABLE and it.differs(tool):
            try:
                judge(it.document)
            except TypeMismatchError as error:
                return f"{tool} can make nothing of {error}"
    return None


_JUDGES: Final[dict[Tool, Callable[[Document], object]]] = {
    Tool.KSTATUS: lambda document: compute(document, 0.0),
    Tool.ARGO: assess,
}


def _cause(it: Evidence) -> str | None:
    name = kind_of(it.document).name
    causes = (cause for cause in CAUSES if not cause.kinds or name in cause.kinds)
    explaining = (cause for cause in causes if it.differs(cause.tool) and cause.holds(it))
    return next((cause.because for cause in explaining), None)


def _listed(it: Evidence) -> str:
    words = ", ".join(f"{tool} says {word}" for tool, word in it.words.items())
    return f"{words}; genguard {'is satisfied' if it.done else 'is not, for its reasons'}"
