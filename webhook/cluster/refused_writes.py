"""Which writes the API server refuses, by its own metrics.

Validation, policies, quotas and conflicts refuse a write before validating webhooks are called.
Where /outcome is all that is registered, nothing of it is seen: so these writes get /mutate for a
while. Source: apiserver pkg/endpoints/metrics/metrics.go:requestCounter.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from genguard.detection.matching import Writes
from webhook.cluster.rest import Calls
from webhook.tasks.threads import in_thread

LOOK_SECONDS: Final = 15.0
"""Between two looks at the metrics."""
KEPT_SECONDS: Final = 600.0
"""For so long writes count as refused after the last look that showed it."""
FEW: Final = 3
"""So many refusals between two looks are worth a call: a controller that is refused goes on."""
_MOST: Final = 1_000
_LINE: Final = re.compile(rb"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(rb'(code|dry_run|group|resource|subresource|verb)="([^"]*)"')
_OPERATIONS: Final = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "APPLY": "UPDATE"}
_CODES: Final = frozenset({"400", "403", "409", "422", "500"})


class RefusedWrites:
    """Reads the metrics of an API server again and again."""

    def __init__(
        self,
        calls: Calls,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is called when writes are refused that were not before."""
        self._calls: Final = calls
        self._changed: Final = changed
        self._clock: Final = clock
        self._counts: Mapping[Writes, float] | None = None
        self._until: dict[Writes, float] = {}

    def is_refused(self, writes: Writes) -> bool:
        """Whether such writes were refused lately."""
        return self._until.get(writes, 0.0) > self._clock()

    async def step(self) -> float:
        """Look at the metrics. Raises RefusedError or one of UNREACHED."""
        text = await self._calls.read("/metrics")
        self.see(await in_thread(refusals, text))  # some megabytes
        return LOOK_SECONDS

    def see(self, counts: Mapping[Writes, float]) -> None:
        """Take in how many writes were refused since the start of the API server."""
        before, self._counts = self._counts, counts
        if before is None:
            return
        now = self._clock()
        self._until = {one: until for one, until in self._until.items() if until > now}
        # Another API server may have answered: then counts differ by chance, and a call too many
        # is made for a while.
        more = [one for one, count in counts.items() if count - before.get(one, 0) >= FEW]
        is_new = any(one not in self._until for one in more)
        self._until |= dict.fromkeys(more[:_MOST], now + KEPT_SECONDS)
        if is_new:
            self._changed()


def refusals(text: bytes) -> dict[Writes, float]:
    """Return how many writes were refused, by metrics in the text format of Prometheus."""
    found: dict[Writes, float] = {}
    for line in _LINE.finditer(text):
        labels = {key.decode(): value.decode() for key, value in _LABEL.findall(line[1])}
        operation = _OPERATIONS.get(labels.get("verb", ""))
        if operation and labels.get("code") in _CODES and not labels.get("dry_run"):
            group, subresource = labels.get("group", ""), labels.get("subresource", "")
            writes = Writes.named(group, labels["resource"], subresource, operation)
            found[writes] = found.get(writes, 0.0) + float(line[2])
    return found
