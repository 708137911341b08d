"""Sends findings as alerts to every Alertmanager peer, by its API v2.

Alertmanager recognizes an alert by its labels, so labels hold only what never changes in a finding.
An alert is sent again well before Alertmanager would resolve it by itself, and resolved by an
`endsAt` in the past (prometheus/alertmanager api/v2; Prometheus' own notifier does the same).
A finding that had no room any more has not ended: its alert is sent for a day after its last
signal.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from msgspec import structs

from genguard.detection.finding import Finding, Severity
from genguard.objects.shown import printable, without_credentials
from webhook.alerts.change import ENDS, Change, Transition
from webhook.alerts.pipeline import UNVERIFIED
from webhook.telemetry.logs import LOGGER

RESEND: Final = timedelta(seconds=60)
LIFETIME: Final = 4 * RESEND
_SECONDS: Final = 5.0
_HELD: Final = timedelta(days=1)
_MOST_HELD: Final = 400
_ALERTED: Final = frozenset({Severity.WARNING, Severity.CRITICAL})


class AlertmanagerSink:
    """Sends alerts to every peer. One that does not answer is logged."""

    def __init__(
        self, urls: Iterable[str], runbooks: str, clock: Callable[[], datetime] | None = None
    ) -> None:
        """Prepare to send; nothing is connected yet.

        urls      of the peers, such as http://alertmanager:9093
        runbooks  the URL below which each detector has its runbook, without a slash at its end
        """
        self._runbooks: Final = runbooks
        self._urls: Final = tuple(f"{url.rstrip('/')}/api/v2/alerts" for url in urls)
        self._clock: Final = clock or (lambda: datetime.now(UTC))
        self._sent = datetime.min.replace(tzinfo=UTC)
        self._firing: dict[str, Finding] = {}
        """Findings whose alerts were sent and have not ended, by their ids."""

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Send changes at once, and all open findings every RESEND."""
        now = self._clock()
        for transition, finding in changes:
            if transition in ENDS:
                self._firing.pop(finding.id, None)
            else:
                self._firing[finding.id] = finding
        alerts = [self._alert(change.finding, now) for change in changes if _is_alert(change)]
        if not timedelta(0) <= now - self._sent < RESEND:  # less than 0: the clock was set back
            self._sent = now
            all_of_them = (*self._held(findings, now), *findings)
            self._firing = {finding.id: finding for finding in all_of_them if _is_open(finding)}
            alerts = [self._alert(finding, now) for finding in self._firing.values()] + [
                alert for alert in alerts if alert["endsAt"] <= _text(now)
            ]
        if alerts:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_SECONDS)) as session:
                await asyncio.gather(*(_post(session, url, alerts) for url in self._urls))

    def _held(self, findings: Iterable[Finding], now: datetime) -> list[Finding]:
        """Return the findings that are not known any more, and were not seen to end.

        One that was never verified is left out: nobody knows whether its object exists.
        """
        known = {finding.id for finding in findings}
        begin = (now - _HELD).timestamp()
        held = [
            structs.replace(finding, evidence=(), paths=())
            for finding in self._firing.values()
            if finding.id not in known
            and not finding.message.startswith(UNVERIFIED)
            and datetime.fromisoformat(finding.last_seen).timestamp() > begin
        ]
        return held[-_MOST_HELD:]

    def _alert(self, finding: Finding, now: datetime) -> dict[str, Any]:
        """Return an alert, firing or ended: one that another finding causes does not fire."""
        where = finding.object
        actors = finding.actor_labels
        target = f"{where.namespace}/{where.name}" if where.namespace else where.name
        about = finding.objects.label if finding.objects else f"{where.resource} {target}"
        annotations = {
            "summary": f"{finding.detector} on {about}.",
            "description": f"{finding.message}. {finding.count} times. By: {actors}.",
            "severity": finding.severity.value,
            "runbook_url": f"{self._runbooks}/{finding.detector}",
        }
        return {
            "labels": alert_labels(finding),
            "annotations": {key: printable(text) for key, text in annotations.items()},
            # first_seen may lie ahead after the clock was set back: Alertmanager refuses that.
            "startsAt": min(finding.first_seen, _text(now)),
            "endsAt": _text(now + LIFETIME if _is_open(finding) else now),
        }


async def _post(session: aiohttp.ClientSession, url: str, alerts: list[dict[str, Any]]) -> None:
    """Send alerts to one peer; a failure is logged."""
    try:
        async with session.post(url, json=alerts, allow_redirects=False) as answer:
            if answer.status < 300:  # noqa: PLR2004 - the first status that is not a success
                return
            reason = f"it answered {answer.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        reason = type(error).__name__
    fields = {"url": without_credentials(url), "reason": reason}
    LOGGER.warning("alertmanager not reached", extra={"fields": fields})


def alert_labels(finding: Finding) -> dict[str, str]:
    """The labels of the alert of a finding. Severity is none: a rise would be another alert."""
    labels = {"alertname": "GenguardLoop", **finding.labels}
    return {key: printable(text) for key, text in labels.items()}


def silence_form(url: str, finding: Finding) -> str:
    """The URL of an Alertmanager's form of a new silence, filled in with the alert's labels."""
    matchers = ",".join(f"{key}={json.dumps(text)}" for key, text in alert_labels(finding).items())
    return f"{url.rstrip('/')}/#/silences/new?filter={quote('{' + matchers + '}', safe='')}"


def _is_open(finding: Finding) -> bool:
    return finding.state != "resolved" and finding.severity in _ALERTED


def _is_alert(change: Change) -> bool:
    if change.transition is Transition.FOLDED:
        return True
    if change.transition is Transition.RESOLVED:
        return change.finding.severity in _ALERTED
    return _is_open(change.finding)


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
