"""Writes open findings as Reports of OpenReports, one for each namespace, on the leader.

Acts on  findings that are warning or critical, and open or quiet
Result   a Report `genguard` in each namespace, a ClusterReport `genguard` for what has none. A
         report whose findings are over is deleted
Bounds   MOST_REPORTS reports of MOST_RESULTS results; MOST_WRITES calls each WRITE_SECONDS
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.linting.openreports import (
    API_VERSION,
    MANAGED_BY,
    SOURCE,
    Outcome,
    ReportResult,
    report_of,
)
from webhook.alerts.change import Change
from webhook.cluster.rest import APPLY_PATCH, UNREACHED, Calls, RefusedError
from webhook.election.leader import Leadership
from webhook.telemetry.logs import LOGGER

NAME: Final = "genguard"
MOST_REPORTS: Final = 200
"""The namespaces with the worst findings; others have no report."""
MOST_WRITES: Final = 20
"""Calls each WRITE_SECONDS; what is left comes next time."""
WRITE_SECONDS: Final = 5.0
"""The shortest pause between two rounds of writes."""
COUNT_SECONDS: Final = 300.0
"""The shortest pause between two writes of a report in which only counts have changed."""
AGAIN_SECONDS: Final = 60.0
"""How long to wait after a refusal, or when the API is not there."""
_CALL_SECONDS: Final = 5.0
_BATCH: Final = 50
_PLURALS: Final = ("reports", "clusterreports")
_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}
_VERDICTS: Final = {
    Severity.WARNING: (Outcome.WARN, "medium"),
    Severity.CRITICAL: (Outcome.FAIL, "critical"),
}
_COUNTS: Final = ("count", "lastSeen")
"""The properties that move with each sign: alone they are no news."""


class FindingReports:
    """A Sink that keeps the reports of all namespaces as the findings are.

    `tell` only takes the findings in, since other sinks wait for it; `run` writes.
    """

    def __init__(
        self,
        calls: Calls,
        kind_of: Callable[[FoundObject], str],
        leadership: Leadership,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind_of` returns the kind of an object's resource; `clock` monotonic seconds."""
        self._calls: Final = calls
        self._kind_of: Final = kind_of
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._findings: tuple[Finding, ...] | None = None
        self._written: dict[str, tuple[Any, Any, float]] | None = None
        """By namespace: what of the report is news, the whole, and when it was written; None until
        it is known which reports there are."""
        self._not_before: dict[str, float] = {}
        self._counts: Final[Counter[str]] = Counter()
        self._fails = False

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Take in the findings as they are now."""
        del changes
        self._findings = findings

    async def close(self) -> None:
        """Do nothing: the connection is not ours. The reports stay for the next leader."""

    def counts(self) -> list[tuple[tuple[str, ...], int]]:
        """How many reports were written, deleted, or failed to be."""
        return [((what,), self._counts[what]) for what in ("written", "deleted", "failed")]

    async def run(self) -> None:
        """Write while this replica leads, until it is cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if not self._leadership.is_leader:
                self._written = None
            elif self._findings is not None:
                await self.write(self._findings)

    async def write(self, findings: Iterable[Finding]) -> None:
        """Write the reports that are not as the findings are: MOST_WRITES of them. Never raises."""
        if self._written is None:
            self._written = await self._list()
        written = self._written
        if written is None:
            return
        wanted = await self._wanted(findings)
        now = self._clock()
        calls = 0
        for namespace in [*wanted, *(one for one in written if one not in wanted)]:
            if calls == MOST_WRITES or not self._leadership.is_leader:
                return
            if not self._is_due(namespace, wanted.get(namespace), written.get(namespace), now):
                continue
            calls += 1
            if await self._change(namespace, wanted.get(namespace)):
                if namespace in wanted:
                    results = wanted[namespace]
                    written[namespace] = (_news(results), results, now)
                else:
                    written.pop(namespace, None)

    async def _wanted(self, findings: Iterable[Finding]) -> dict[str, list[ReportResult]]:
        """The results of each namespace; those with the worst come first, and in each the worst.

        There may be thousands of findings: reviews are answered in between.
        """
        open_ones = [
            one for one in findings if one.state != "resolved" and one.severity in _VERDICTS
        ]
        open_ones.sort(key=lambda one: (-_RANKS[one.severity], one.first_seen, one.id))
        wanted: dict[str, list[ReportResult]] = {}
        for count, one in enumerate(open_ones, start=1):
            if count % _BATCH == 0:
                await asyncio.sleep(0)
            namespace = one.subject.namespace
            if namespace in wanted or len(wanted) < MOST_REPORTS:
                wanted.setdefault(namespace, []).append(self._result(one))
        return wanted

    def _result(self, one: Finding) -> ReportResult:
        outcome, severity = _VERDICTS[one.severity]
        resources = tuple(
            {
                "apiVersion": where.api_version,
                "kind": self._kind_of(where),
                "namespace": where.namespace,
                "name": where.name,
                "uid": where.uid,
            }
            for where in (one.objects.examples if one.objects else (one.object,))
        )
        actors = one.actor_labels
        return ReportResult(
            policy=one.detector,
            category="Status and generation",
            outcome=outcome,
            severity=severity,
            message=f"{one.message}. By: {actors}",
            resources=resources,
            properties={
                "finding": one.id,
                "state": one.state,
                "subresource": one.subresource,
                "paths": ", ".join(one.paths),
                "actors": actors,
                "count": str(one.count),
                "lastSeen": one.last_seen,
            },
            timestamp=one.first_seen,
        )

    def _is_due(
        self,
        namespace: str,
        wanted: list[ReportResult] | None,
        written: tuple[Any, Any, float] | None,
        now: float,
    ) -> bool:
        if now < self._not_before.get(namespace, now):
            return False
        if wanted is None or written is None:
            return True
        news, whole, at = written
        if _news(wanted) != news:
            return True
        return wanted != whole and now - at >= COUNT_SECONDS

    async def _list(self) -> dict[str, tuple[Any, Any, float]] | None:
        """Return the reports that an earlier leader has written; None where that is not known."""
        now = self._clock()
        if now < self._not_before.get("*", now):
            return None
        found: dict[str, tuple[Any, Any, float]] = {}
        try:
            for plural in _PLURALS:
                path = f"/apis/{API_VERSION}/{plural}?labelSelector={MANAGED_BY}%3D{SOURCE}"
                listed = await self._calls.metadata(path)
                for item in listed["items"] or ():  # Go writes null for none
                    metadata = item["metadata"]
                    if metadata["name"] == NAME:
                        found[metadata.get("namespace", "")] = (None, None, now)
        except (RefusedError, *UNREACHED, KeyError, TypeError) as error:
            self._fail("*", error)
            return None
        return found

    async def _change(self, namespace: str, results: list[ReportResult] | None) -> bool:
        """Apply one report, or delete it; return whether that was done."""
        folder = f"/apis/{API_VERSION}" + (f"/namespaces/{namespace}" if namespace else "")
        path = f"{folder}/{_PLURALS[not namespace]}/{NAME}"
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if results is None:
                    await self._delete(path)
                else:
                    body = report_of(namespace, NAME, results)
                    # Applied by force: nobody else writes a report of this name, or genguard's
                    # stands beside what they write.
                    apply = {"fieldManager": SOURCE, "force": "true"}
                    await self._calls.call(
                        "PATCH", path, body, params=apply, content_type=APPLY_PATCH
                    )
        except (RefusedError, *UNREACHED) as error:
            self._fail(namespace, error)
            return False
        self._counts["deleted" if results is None else "written"] += 1
        self._not_before.pop(namespace, None)
        if self._fails:
            LOGGER.info("reports are written again")
        self._fails = False
        return True

    async def _delete(self, path: str) -> None:
        try:
            await self._calls.call("DELETE", path)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def _fail(self, namespace: str, error: Exception) -> None:
        """Count a failure, and log an episode of them once."""
        self._counts["failed"] += 1
        if len(self._not_before) > MOST_REPORTS:
            self._not_before.clear()
        self._not_before[namespace] = self._clock() + AGAIN_SECONDS
        if _is_of_no_namespace(error):
            return  # it was deleted, and its findings will be over
        if isinstance(error, RefusedError):
            reason = str(error.status)
            if error.status == HTTPStatus.NOT_FOUND and namespace == "*":
                reason = f"{API_VERSION} is not served: install the definitions of OpenReports"
        else:
            reason = type(error).__name__
        if not self._fails:
            facts = {"reason": reason, "namespace": namespace}
            LOGGER.warning("reports not written", extra={"facts": facts})
        self._fails = True


def _is_of_no_namespace(error: Exception) -> bool:
    """Whether a write was refused since its namespace is not there, and not the API."""
    is_missing = isinstance(error, RefusedError) and error.status == HTTPStatus.NOT_FOUND
    return is_missing and 'namespaces "' in str(error)


def _news(results: list[ReportResult]) -> list[Any]:
    """What of the results is news: all but counts, which a message may have too."""
    return [
        (
            one.policy,
            one.severity,
            one.resources,
            {key: text for key, text in one.properties.items() if key not in _COUNTS},
        )
        for one in results
    ]
