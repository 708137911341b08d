"""Takes the observers' views of one object until enough writes were seen from end to end."""

from typing import Any, Final

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.trace.passes import Passes, Tally
from genguard.trace.plan import Plan
from genguard.trace.report import make_report


class Watch:
    """The state of one trace."""

    def __init__(self, plan: Plan, *, writes: int | None, each: bool) -> None:
        """End after `writes` writes, or never.

        each  the writes are our own dry runs: end after one of each subresource
        """
        self._plan: Final = plan
        self._writes: Final = writes
        self._poked: Final = each
        self._passes: Final = Passes(frozenset(plan.observers))
        self._tally: Final = Tally(plan)

    def see(self, position: int, view: AdmissionRequest) -> None:
        """Take one observer's view of one write. Views of other objects are ignored."""
        wire, traced = view.wire, self._plan.traced
        if (wire.name, wire.namespace) != (traced.name, traced.namespace):
            return
        step = self._passes.see(position, view)
        if step is not None:
            try:
                self._tally.add(step)
            except (msgspec.MsgspecError, RecursionError):
                self._passes.mixed += 1

    @property
    def is_enough(self) -> bool:
        """Whether enough complete writes were seen."""
        whole = self._passes.whole
        if self._writes is not None:
            return whole.total() >= self._writes
        return self._poked and all(whole[one] for one in self._plan.traced.subresources)

    def report(self, changed: list[str], *, values: bool) -> dict[str, Any]:
        """Close the trace and return its report. See make_report for `changed`."""
        self._passes.close()
        return make_report(
            self._plan, self._tally, self._passes, changed, values=values, poked=self._poked
        )
