"""Counts each answer, logs what matters, records it, and hands it to detection."""

import logging
import time
from typing import Any, Final

from genguard.admission.review import Phase
from genguard.objects.fields import to_field_path
from genguard.review import Reply, Skipped, Verdict
from genguard.rules.annotations import MOST_SHOWN
from genguard.rules.assign_generation import AssignGeneration
from webhook.server.detecting import Detecting, LatestRepair
from webhook.server.large import is_large
from webhook.server.limits import Limits
from webhook.server.record import Recorder
from webhook.telemetry.logs import LOGGER, is_heard
from webhook.telemetry.metrics import Metrics

_LONGEST_NAME: Final = 256


class Observations:
    """The AdmissionHandler's Observer."""

    def __init__(
        self,
        metrics: Metrics,
        recorder: Recorder | None,
        detecting: Detecting,
        limits: Limits,
    ) -> None:
        self._metrics: Final = metrics
        self._recorder: Final = recorder
        self._detecting: Final = detecting
        self._limits: Final = limits

    def answered(
        self, phase: Phase, body: bytes, reply: Reply, seconds: float, *, audit_only: bool
    ) -> None:
        """Count a review; log it when something was repaired, dropped or not judged."""
        verdict = reply.verdict
        self._metrics.record(phase, reply, seconds, audit_only=audit_only)
        if verdict.refused is not None:
            facts: dict[str, Any] = {
                "phase": phase,
                "field": verdict.refused.field,
                "code": verdict.refused.code,
            }
            LOGGER.warning("undecodable", extra={"facts": facts})
            return
        if self._recorder is not None:
            self._recorder.record(phase, body)
        self._detecting.put(phase, verdict, len(body), is_large=is_large(body, self._limits))
        if verdict.skipped is Skipped.OVERLOADED:
            self._detecting.shed(verdict.request)
        # webhook/server/overload.py logs an overload once: it is no time for many lines.
        if verdict.skipped is not None and verdict.skipped is not Skipped.OVERLOADED:
            facts = {"phase": phase, "why": verdict.skipped, **_where(verdict)}
            LOGGER.warning("not judged", extra={"facts": facts})
        for repair in verdict.repairs:
            # It acts on every counted write: its lines are for debugging.
            level = logging.DEBUG if repair.rule == AssignGeneration.name else logging.INFO
            message = "would repair" if audit_only else "repaired"
            is_logged = is_heard(level, message)
            if level == logging.DEBUG and not is_logged:
                continue
            shown = {to_field_path(edit.path): edit.shown for edit in repair.edits[:MOST_SHOWN]}
            where = _where(verdict)
            if level == logging.INFO:
                self._detecting.latest_repair = LatestRepair(
                    time.time(), shown, where, is_done=not audit_only
                )
            if is_logged:
                facts = {"rule": repair.rule, "edits": len(repair.edits), "set": shown, **where}
                LOGGER.log(level, message, extra={"facts": facts})
        if verdict.dropped:
            facts = {
                "fields": [to_field_path(edit.path) for edit in verdict.dropped],
                **_where(verdict),
            }
            LOGGER.error("patch dropped", extra={"facts": facts})

    def shed(self) -> None:
        """Tell detection that there was no time to judge a review."""
        self._detecting.shed(None)

    def refused(self, reason: str) -> None:
        """Count a request that was refused before its body was decoded."""
        self._metrics.refuse(reason)


def _where(verdict: Verdict) -> dict[str, str]:
    if verdict.request is None:
        return {}
    wire = verdict.request.wire
    where = {
        "operation": wire.operation,
        "resource": wire.resource.resource,
        "group": wire.resource.group,
        "subresource": wire.sub_resource,
        "namespace": wire.namespace,
        "name": wire.name,
        "user": wire.user_info.username,
    }
    return {key: value[:_LONGEST_NAME] for key, value in where.items()}
