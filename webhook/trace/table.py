"""The report as people read it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from webhook.objects.shown import printable
from webhook.trace.plan import Plan

_MOST_FIELDS: Final = 20


def as_table(report: dict[str, Any], plan: Plan) -> str:
    """Every configuration in the order of calls, its fields below it, and the verdict last."""
    writes = report["writes"]
    head = f"{plan.traced}: {writes['whole']} writes seen from end to end"
    if writes["incomplete"]:
        head += f", {writes['incomplete']} in part (denied, or an observer was not reached)"
    if writes["mixed"]:
        head += f", {writes['mixed']} not told apart"
    rows = [("WHO", "WRITES", "CHANGED", "FIELDS"), *_rows(report)]
    lines = [head, "", *_aligned(rows), "", *_verdict(report)]
    return "\n".join(map(printable, lines))


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for one in report["requests"]:
        manager = f" ({one['fieldManager']})" if one["fieldManager"] else ""
        yield from _fields(f"request of {one['user']}{manager}", one)
    for one in report["webhooks"]:
        yield from _fields(" or ".join(map(_name, one["configurations"])), one)
    for name in report["notSeen"]:
        yield name, "0", "0", "(not seen)"


def _name(configuration: dict[str, Any]) -> str:
    return f"{configuration['name']}/{'+'.join(configuration['webhooks'])}"


def _fields(who: str, row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    counts = str(sum(row["writes"].values())), str(row["changed"])
    texts = [_field(one) for one in row["fields"][:_MOST_FIELDS]] or ["-"]
    if len(row["fields"]) > _MOST_FIELDS:
        texts.append(f"and {len(row['fields']) - _MOST_FIELDS} more: -o json has all")
    yield who, *counts, texts[0]
    for text in texts[1:]:
        yield "", "", "", text


def _field(one: dict[str, Any]) -> str:
    text = f"{one['change']} {one['pointer']}"
    if one["subresource"]:
        text = f"{one['subresource']}: {text}"
    if "before" in one or "after" in one:
        before, after = (_shown(one, name) for name in ("before", "after"))
        text += f": {before} -> {after}"
    if one["count"] > 1:
        text += f" ({one['count']} times)"
    if one["observedGeneration"]:
        text += f" <- observedGeneration {one['observedGeneration']}"
    if one["discarded"]:
        text += " (of no effect: the API server discards it)"
    return text


def _shown(one: dict[str, Any], name: str) -> str:
    return json.dumps(one[name]) if name in one else "absent"


def _verdict(report: dict[str, Any]) -> Iterator[str]:
    for one in report["culprits"]:
        fields = ", ".join(one["paths"])
        if one["type"] == "user":
            yield f"{one['name']} itself asks for it, or an admission policy before the webhooks:"
            yield f"  it clobbers {fields}"
        elif one["confidence"] != "possible":
            yield f"{one['name']} clobbers {fields}: {one['confidence']}"
            if len(one["webhooks"]) > 1:
                which = ", ".join(one["webhooks"])
                yield f"  which of its webhooks ({which}) cannot be seen from outside it"
        else:
            yield f"{one['name']} possibly clobbers {fields}: it was not seen alone"
    if not report["culprits"]:
        yield "nobody clobbered an observedGeneration in the writes that were seen"
    if report["changedMeanwhile"]:
        names = ", ".join(report["changedMeanwhile"])
        yield f"not certain: changed while this ran: {names}; trace again"
    yield "first calls only: what a reinvocation changes is not seen"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join((*cells, row[3])).rstrip()
