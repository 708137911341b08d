"""One object as genguard sees it, beside what kstatus, Argo CD and kubectl say of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from webhook.status.evaluate import evaluate
from webhook.status.view import Past, StatusView
from webhook.status.views.argo import ArgoHealth, argo
from webhook.status.views.disagreement import disagreement
from webhook.status.views.kstatus import Kstatus, kstatus
from webhook.status.views.rollout import Rollout, rollout


class Judged(NamedTuple):
    """One object and everybody's answer; None: the tool has none for this kind."""

    document: Mapping[str, Any]
    view: StatusView
    kstatus: Kstatus
    argo: ArgoHealth | None
    rollout: Rollout | None

    @property
    def disagreement(self) -> str | None:
        """Why the answers contradict each other, in one line; None where they do not."""
        view = self.view
        return disagreement(
            self.document,
            ready=view.ready,
            settled=view.settled,
            kstatus=self.kstatus,
            argo=self.argo,
            rollout=self.rollout,
        )


def judge(
    document: Mapping[str, Any],
    past: Past | None = None,
    children: Sequence[StatusView] = (),
    *,
    at: float,
) -> Judged:
    """As evaluate(), with the other views; those look at the object alone."""
    return Judged(
        document,
        evaluate(document, past, children, at=at),
        kstatus(document, at),
        argo(document),
        rollout(document),
    )
