"""The answer as one JSON value: who did what to the fields, and who clobbers observedGeneration."""

from typing import Any

from webhook.objects.fields import ABSENT
from webhook.trace.passes import Passes
from webhook.trace.plan import Plan
from webhook.trace.tally import FieldKey, Row, Tally


def make_report(
    plan: Plan, tally: Tally, passes: Passes, changed: list[str], *, values: bool
) -> dict[str, Any]:
    """`changed` are configurations that came, went or were edited meanwhile."""
    traced = plan.traced
    hooks = {one.configuration: one.webhooks for one in plan.candidates}
    rows = sorted(tally.rows.items(), key=lambda item: item[0])
    return {
        "type": "trace",
        "id": plan.run,
        "object": {
            "group": traced.group,
            "version": traced.version,
            "resource": traced.resource,
            "namespace": traced.namespace,
            "name": traced.name,
            "uid": traced.uid,
        },
        "writes": {
            "whole": passes.whole.total(),
            "incomplete": passes.broken,
            "mixed": passes.mixed,
        },
        "culprits": [*_requesters(tally), *_culprits(rows, hooks, settled=not changed)],
        "requests": [
            {"user": user, "fieldManager": manager, **_row(row, values=values)}
            for (user, manager), row in sorted(tally.requests.items())
        ],
        "webhooks": [
            {
                "configurations": [
                    {"name": name, "webhooks": _called(hooks[name], row)} for name in names
                ],
                **_row(row, values=values),
            }
            for names, row in rows
        ],
        "notSeen": [one.configuration for one in tally.unseen()],
        "changedMeanwhile": changed,
    }


def _row(row: Row, *, values: bool) -> dict[str, Any]:
    return {
        "writes": {subresource or "": count for subresource, count in sorted(row.writes.items())},
        "changed": row.changed,
        "fields": [
            _field(key, count) | (_values(effect.before, effect.after) if values else {})
            for key, (count, effect) in sorted(row.fields.items(), key=lambda item: _order(item[0]))
        ],
    }


def _field(key: FieldKey, count: int) -> dict[str, Any]:
    return {
        "subresource": key.subresource,
        "pointer": key.pointer,
        "change": key.kind.value,
        "observedGeneration": key.clobber.value if key.clobber else None,
        "discarded": key.discarded,
        "count": count,
    }


def _values(before: Any, after: Any) -> dict[str, Any]:
    pairs = {"before": before, "after": after}
    return {name: value for name, value in pairs.items() if value is not ABSENT}


def _order(key: FieldKey) -> tuple[str, str, str]:
    return key.pointer, key.subresource, key.kind.value


def _requesters(tally: Tally) -> list[dict[str, Any]]:
    """Who asked for a clobbered status: the request, or what acts before every webhook."""
    return [
        {
            "type": "user",
            "name": user,
            "fieldManager": manager,
            "confidence": "likely",  # a MutatingAdmissionPolicy would look the same
            "paths": sorted({key.pointer for key in row.clobbers}),
        }
        for (user, manager), row in sorted(tally.requests.items())
        if row.clobbers
    ]


def _culprits(
    rows: list[tuple[tuple[str, ...], Row]], hooks: Any, *, settled: bool
) -> list[dict[str, Any]]:
    """Certain when no other was called in between, and none can have come in the meantime."""
    found = []
    sure = "certain" if settled else "likely"
    for names, row in rows:
        paths = sorted({key.pointer for key in row.clobbers})
        for name in names if paths else ():
            called = _called(hooks[name], row)
            found.append(
                {
                    "type": "webhook",
                    "name": f"{name}/{called[0]}" if len(called) == 1 else name,
                    "webhooks": called,
                    "confidence": sure if len(names) == 1 else "possible",
                    "paths": paths,
                }
            )
    return found


def _called(webhooks: Any, row: Row) -> list[str]:
    """Of one configuration's webhooks those whose rules match what clobbered, or what was seen."""
    where = {key.subresource for key in row.clobbers} or set(row.writes)
    return list(dict.fromkeys(name for one in sorted(where) for name in webhooks.get(one, ())))
