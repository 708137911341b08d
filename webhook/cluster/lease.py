"""Leader election by a Lease of coordination.k8s.io, by the rules of client-go.

A candidate takes the Lease when nobody holds it, or when the holder has not renewed it for the
Lease's duration by the candidate's own monotonic clock: clocks of machines are not compared
(client-go tools/leaderelection/leaderelection.go:tryAcquireOrRenew). A holder that cannot renew
stops leading before anybody else may begin. If two candidates write at once, the resourceVersion
decides. In webhook/cluster/standby.py what is known of the pods counts, too.

A leader that vanishes without a word is replaced within 7 s, at worst: its last renewal is seen a
tick later (1 s), has run out LEASE_SECONDS after that (5 s), and is looked at each tick (1 s).

Not `kubernetes.aio.leaderelection`: it measures by the time of day, so that a clock that is set
back gives two leaders; its calls have no timeout, and a lost connection ends the election; it
cannot release the Lease, nor say when another replica led last.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from webhook.cluster.reconcile import Reconciler
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, if_there
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

LEASE_SECONDS: Final = 5
LEAD_SECONDS: Final = 4.0
"""How long a holder leads after it sent a renewal that was granted: one call without an answer and
the next one have room in it."""
TICK_SECONDS: Final = 1.0
"""The time between two attempts to lead."""
_SHORTEST_SECONDS: Final = 0.1
"""The pause after an attempt that took as long as TICK_SECONDS."""
_CALL_SECONDS: Final = 2.0
_NEVER: Final = float("-inf")


class LeaseElection:
    """An election in which this replica is a candidate: the Leadership of replicas in a cluster."""

    def __init__(
        self,
        calls: Rest,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` is unique to this process; `clock` gives monotonic seconds."""
        self._calls: Final = calls
        self._metadata: Final = {"name": name, "namespace": namespace}
        self._folder: Final = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path: Final = f"{self._folder}/{name}"
        self._identity: Final = identity
        self._clock: Final = clock
        self._renewed = _NEVER
        self._seen: tuple[str, str] | None = None
        self._seen_at = self._read_at = _NEVER
        self.vacant_since = _NEVER
        """When another replica was last seen to renew; minus infinity if there was none."""
        self._led: bool | None = None
        self._taking: Final = Reconciler("leader election", self._take_part)

    @property
    def is_leader(self) -> bool:
        """Whether this replica renewed the Lease within LEAD_SECONDS."""
        return self.has_renewed_within(LEAD_SECONDS)

    def has_renewed_within(self, seconds: float) -> bool:
        """Whether this replica renewed the Lease so lately, and has not seen another hold it."""
        return self._clock() < self._renewed + seconds

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as is known; "" for nobody."""
        if self.is_leader:
            return self._identity
        return "" if self._seen is None else self._seen[0]

    @asynccontextmanager
    async def taking_part(self, supervisor: Supervisor) -> AsyncIterator[None]:
        """Take part in the election while the context is entered, then give up the leadership."""
        try:
            async with self._taking.running(supervisor):
                yield
        finally:
            with supervisor.guard("leader election at the end"):
                await self.release()

    async def _take_part(self) -> float:
        due = time.monotonic() + TICK_SECONDS
        await self.tick()
        if self.is_leader is not self._led:
            self._led = self.is_leader
            LOGGER.info("leading" if self._led else "following")
        return max(due - time.monotonic(), _SHORTEST_SECONDS)

    async def tick(self) -> bool:
        """Read the Lease, and take or renew it if that is due. Never raises.

        Returns whether this replica holds it now, by the API server's answer.
        """
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                try:
                    return await self._tick()
                except RefusedError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                # Another replica was faster. All hear of a change at once: at the next tick it
                # would be so again.
                return await self._tick()
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                self._log_failure(f"{error.status}")
        except UNREACHED as error:
            self._log_failure(type(error).__name__)
        return False

    async def release(self) -> None:
        """Release the Lease, if this replica holds it. Never raises."""
        if self._renewed == _NEVER:
            return
        self._renewed = _NEVER
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                lease = await self._calls.call("GET", self._path)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "renewTime": _now()}
                    await self._calls.call("PUT", self._path, lease)
        except (RefusedError, *UNREACHED) as error:
            self._log_failure(type(error).__name__)

    async def _tick(self) -> bool:
        asked = self._clock()
        lease = await if_there(self._calls.call("GET", self._path))
        mine = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": _now(),
            "renewTime": _now(),
        }
        if lease is None:
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            body = {**made, "metadata": self._metadata, "spec": {**mine, "leaseTransitions": 0}}
            await self._calls.call("POST", self._folder, body)
            self._renewed = asked
            return True
        spec: dict[str, Any] = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        good_for = spec.get("leaseDurationSeconds") or LEASE_SECONDS
        seen = (holder, str(spec.get("renewTime")))
        # While the API server did not answer, its holder could not renew it either.
        was_away = asked >= self._read_at + good_for
        self._read_at = asked
        if seen != self._seen and holder not in {"", self._identity}:
            self.vacant_since = asked
        if seen != self._seen or was_away:
            self._seen, self._seen_at = seen, asked
        if holder == self._identity:
            spec = {**spec, "renewTime": _now()}
        else:
            if holder:
                self._renewed = _NEVER  # another one has taken it
            if not await self._is_free(holder, has_run_out=asked >= self._seen_at + good_for):
                return False
            spec = {**spec, **mine, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}
        await self._calls.call("PUT", self._path, {**lease, "spec": spec})
        self._renewed = asked
        return True

    async def _is_free(self, holder: str, *, has_run_out: bool) -> bool:
        """Whether this replica may take the Lease from its holder, "" for nobody."""
        return not holder or has_run_out

    def _log_failure(self, reason: str) -> None:
        LOGGER.warning("lease not renewed", extra={"fields": {"reason": reason}})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
