"""Report a trace as JSON and as a table: who changed which fields, who lost observedGeneration."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from genguard.objects.fields import ABSENT
from genguard.objects.shown import few, printable
from genguard.shipped import shipped
from genguard.status.drawing import Cell
from genguard.status.drawing import Row as TableRow
from genguard.trace.passes import Row, Watch
from genguard.trace.plan import Plan

_MOST_FIELDS: Final = 20


class TraceConclusion(StrEnum):
    """What a trace says of observedGeneration."""

    CLOBBERED = "clobbered"
    NOT_CLOBBERED = "not-clobbered"  # in the writes that were seen
    NOT_SHOWN = "not-shown"  # no write carried a value that could have been lost


def make_report(watch: Watch, changed: list[str], *, values: bool) -> dict[str, Any]:
    """Close a trace and build its JSON report; `changed`: configurations that changed meanwhile."""
    watch.passes.close()
    traced, passes = watch.plan.traced, watch.passes
    hooks = {candidate.configuration: candidate.webhooks for candidate in watch.plan.candidates}
    rows = sorted(watch.rows.items(), key=lambda item: item[0])
    culprits = [*_requesters(watch), *_culprits(rows, hooks, unchanged=not changed)]
    verdict = TraceConclusion.NOT_CLOBBERED if watch.carried else TraceConclusion.NOT_SHOWN
    return {
        "type": "trace",
        "id": watch.plan.run,
        "object": {
            "group": traced.served.group,
            "version": traced.served.version,
            "resource": traced.served.resource,
            "namespace": traced.namespace,
            "name": traced.name,
            "uid": traced.uid,
        },
        "writes": {
            "complete": passes.complete.total(),
            "incomplete": passes.broken,
            "mixed": passes.mixed,
        },
        "verdict": (TraceConclusion.CLOBBERED if culprits else verdict).value,
        "dryRuns": watch.is_poked,
        "statusWrites": watch.status_writes,
        "carried": [{"path": path, "writes": n} for path, n in sorted(watch.carried.items())],
        "culprits": culprits,
        "requests": [
            {"user": user, "fieldManager": manager, **_row(row, values=values)}
            for (user, manager), row in sorted(watch.requests.items())
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
        "notSeen": watch.unseen(),
        "changedMeanwhile": changed,
        "creation": {"webhooks": list(watch.plan.at_creation), **watch.creation},
    }


def _row(row: Row, *, values: bool) -> dict[str, Any]:
    return {
        "writes": dict(sorted(row.writes.items())),
        "changed": row.changed,
        "fields": [
            {
                "subresource": effect.subresource,
                "pointer": effect.pointer,
                "change": effect.change,
                "observedGeneration": effect.clobber or None,
                "discarded": effect.discarded,
                "count": count,
                **{
                    name: value
                    for name, value in zip(("before", "after"), latest, strict=True)
                    if values and value is not ABSENT
                },
            }
            for effect, (count, latest) in sorted(row.fields.items(), key=lambda item: item[0])
        ],
    }


def _requesters(watch: Watch) -> list[dict[str, Any]]:
    """Requesters whose own write lost an observedGeneration."""
    return [
        {
            "type": "user",
            "name": user,
            "fieldManager": manager,
            "confidence": "likely",  # a MutatingAdmissionPolicy would look the same
            "paths": sorted({key.pointer for key in row.clobbers}),
        }
        for (user, manager), row in sorted(watch.requests.items())
        if row.clobbers
    ]


def _culprits(
    rows: list[tuple[tuple[str, ...], Row]], hooks: Any, *, unchanged: bool
) -> list[dict[str, Any]]:
    """Webhooks that lost an observedGeneration.

    Certain if no other webhook was called between the two views and no configuration changed
    during the trace (`unchanged`).
    """
    found = []
    sure = "certain" if unchanged else "likely"
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
    """The webhooks of a configuration whose rules match the damaged subresources, or any seen."""
    where = {key.subresource for key in row.clobbers} or set(row.writes)
    names = (name for subresource in sorted(where) for name in webhooks.get(subresource, ()))
    return list(dict.fromkeys(names))


def as_table(report: dict[str, Any], plan: Plan) -> list[TableRow]:
    """Return the report as rows for people: configurations in call order, fields, verdict."""
    writes = report["writes"]
    head = f"{plan.traced}: {writes['complete']} writes seen from end to end"
    if writes["incomplete"]:
        head += f", {writes['incomplete']} incomplete (denied, or an observer was not reached)"
    if writes["mixed"]:
        head += f", {writes['mixed']} simultaneous writes could not be told apart"
    header = ("WHO", "WRITES", "CHANGED", "FIELDS")
    seen = [(head,), ("",), header, *_rows(report), ("",), *((text,) for text in _verdict(report))]
    rows = [*(seen if plan.candidates else ()), *((text,) for text in _creation(report))]
    return [tuple(Cell(printable(text)) for text in row) for row in rows]


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for request in report["requests"]:
        manager = f" ({request['fieldManager']})" if request["fieldManager"] else ""
        yield from _field_rows(f"request of {request['user']}{manager}", request)
    for webhook in report["webhooks"]:
        names = [
            f"{each['name']}/{'+'.join(each['webhooks'])}" for each in webhook["configurations"]
        ]
        yield from _field_rows(" or ".join(names), webhook)
    for name in report["notSeen"]:
        yield name, "0", "0", "(not seen)"


def _field_rows(who: str, row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    counts = str(sum(row["writes"].values())), str(row["changed"])
    texts = [_field_text(field) for field in row["fields"][:_MOST_FIELDS]] or ["-"]
    if len(row["fields"]) > _MOST_FIELDS:
        texts.append(f"and {len(row['fields']) - _MOST_FIELDS} more: -o json has all")
    yield who, *counts, texts[0]
    for text in texts[1:]:
        yield "", "", "", text


def _field_text(field: dict[str, Any]) -> str:
    text = f"{field['change']} {field['pointer']}"
    if field["subresource"]:
        text = f"{field['subresource']}: {text}"
    if "before" in field or "after" in field:
        shown = (
            json.dumps(field[key]) if key in field else "absent" for key in ("before", "after")
        )
        text += f": {' -> '.join(shown)}"
    if field["count"] > 1:
        text += f" ({field['count']} times)"
    if field["observedGeneration"]:
        text += f" <- observedGeneration {field['observedGeneration']}"
    if field["discarded"]:
        text += " (no effect: the API server discards it)"
    return text


def _verdict(report: dict[str, Any]) -> Iterator[str]:
    for culprit in report["culprits"]:
        fields = ", ".join(culprit["paths"])
        if culprit["type"] == "user":
            yield f"{culprit['name']} itself clobbers {fields},"
            yield "  or an admission policy that runs before the webhooks does"
        elif culprit["confidence"] != "possible":
            yield f"{culprit['name']} clobbers {fields}: {culprit['confidence']}"
            if len(culprit["webhooks"]) > 1:
                which = ", ".join(culprit["webhooks"])
                yield f"  a trace cannot tell which of its webhooks did it: {which}"
        else:
            yield f"{culprit['name']} possibly clobbers {fields}: it was not observed alone"
    if report["verdict"] == TraceConclusion.NOT_CLOBBERED:
        yield from _acquitted(report)
    elif report["verdict"] == TraceConclusion.NOT_SHOWN:
        yield from _not_shown(report)
    if report["changedMeanwhile"]:
        names = ", ".join(report["changedMeanwhile"])
        yield f"not certain: these changed during the trace: {names}. Trace again."
    yield "only first calls are seen, not what a reinvocation changes"


def _creation(report: dict[str, Any]) -> Iterator[str]:
    """Say who acts on the creation of such an object, and what a dry run of one has shown."""
    creation = report["creation"]
    if creation["webhooks"]:
        yield f"called at its creation: {', '.join(creation['webhooks'])}"
    if "refused" in creation:
        yield f"  what they do is not known: a creation as a dry run fails: {creation['refused']}"
    elif "fields" in creation:
        fields = [f"{name} ({how})" for name, how in creation["fields"].items()]
        lost = ", ".join(fields) or "all fields that it has are kept as sent"
        yield f"  a copy created as a dry run: {lost}"
    elif creation["webhooks"]:
        yield "  give --poke to send a creation of a copy as a dry run"


def _acquitted(report: dict[str, Any]) -> Iterator[str]:
    said = _texts()
    yield said["acquitted"].format(few([entry["path"] for entry in report["carried"]]))
    if report["dryRuns"]:
        yield f"  {said['leaves-dry-runs']}"


def _not_shown(report: dict[str, Any]) -> Iterator[str]:
    """Say why nobody is cleared, and what to do."""
    said, has_poked = _texts(), report["dryRuns"]
    yield said["not-shown"]
    if not report["statusWrites"]:
        yield f"  {said['no-status-write']}"
    elif has_poked:
        yield f"  {said['gone-before']}"
        return
    else:
        yield f"  {said['nothing-carried']}"
    yield f"  {said['real-writes' if has_poked else 'poke']}"


def _texts() -> dict[str, str]:
    return shipped("genguard.trace", "verdicts.yaml", dict[str, str])
