"""Takes the observers' views until enough writes were seen from end to end."""

from typing import Any, Final

import msgspec

from webhook.admission.review import AdmissionRequest
from webhook.trace.passes import Passes
from webhook.trace.plan import Plan
from webhook.trace.report import make_report
from webhook.trace.tally import Tally


class Watch:
    """What was seen so far."""

    def __init__(self, plan: Plan, *, writes: int | None, each: bool) -> None:
        """End after so many writes, or after one of `each` subresource, or not by itself."""
        self._plan: Final = plan
        self._writes: Final = writes
        self._each: Final = each
        self._passes: Final = Passes(frozenset(plan.observers))
        self._tally: Final = Tally(plan)

    def see(self, position: int, view: AdmissionRequest) -> None:
        """One observer's view of one write; of another object it is none of ours."""
        wire, traced = view.wire, self._plan.traced
        if (wire.name, wire.namespace) != (traced.name, traced.namespace):
            return
        step = self._passes.see(position, view)
        if step is not None:
            try:
                self._tally.step(step)
            except (msgspec.MsgspecError, RecursionError):
                self._passes.mixed += 1

    @property
    def is_enough(self) -> bool:
        """Nothing more is waited for."""
        whole = self._passes.whole
        if self._writes is not None:
            return whole.total() >= self._writes
        return self._each and all(whole[one] for one in self._plan.traced.subresources)

    def report(self, changed: list[str], *, values: bool) -> dict[str, Any]:
        """The end: views that come later are not in it. See make_report for `changed`."""
        self._passes.close()
        return make_report(self._plan, self._tally, self._passes, changed, values=values)
